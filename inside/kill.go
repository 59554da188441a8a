package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

const killPatience = 10 * time.Second

var markSignals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}

// signalMarked signals every process whose environment has an entry, and their descendants. SIGKILL is repeated until
// none is left, as processes fork meanwhile.
func signalMarked(name, entry string) error {
	number, known := markSignals[name]
	if !known {
		return fmt.Errorf("unknown signal %q", name)
	}
	for deadline := time.Now().Add(killPatience); ; {
		found := marked(entry)
		for _, pid := range found {
			_ = syscall.Kill(pid, number)
		}
		if len(found) == 0 || number != syscall.SIGKILL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes cannot be killed", len(found))
		}
		time.Sleep(time.Millisecond)
	}
}

// marked lists the living processes that have an entry in their environment, and all below them; never this one.
func marked(entry string) []int {
	processes := listProcesses()
	found := map[int]bool{}
	for _, each := range processes {
		if hasEntry(each.pid, entry) {
			found[each.pid] = true
			for _, below := range descendantsAmong(processes, each.pid) {
				found[below] = true
			}
		}
	}
	var living []int
	for _, each := range processes {
		if found[each.pid] && !each.ended && each.pid != os.Getpid() {
			living = append(living, each.pid)
		}
	}
	return living
}

func hasEntry(pid int, entry string) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for _, each := range bytes.Split(content, []byte{0}) {
		if string(each) == entry {
			return true
		}
	}
	return false
}

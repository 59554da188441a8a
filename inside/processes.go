package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const termGrace = 2 * time.Second

// Processes starts programs, collects their exits and can end every one of them.
//
// It makes this process a subreaper: whoever loses its parent, as daemons do, becomes a child of this process and is
// found when the connection ends. So every exit is collected here, with wait for any child; nothing else may wait.
type Processes struct {
	mutex   sync.Mutex
	waiting map[int]chan syscall.WaitStatus
	starts  chan func()
	onDeath syscall.Signal // what a child gets if this process is killed; 0: nothing
}

func newProcesses(keep bool) *Processes {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	processes := &Processes{waiting: map[int]chan syscall.WaitStatus{}, starts: make(chan func())}
	if !keep {
		processes.onDeath = syscall.SIGHUP
	}
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	go func() {
		for range exits {
			processes.collect()
		}
	}()
	go processes.runStarts()
	return processes
}

// runStarts starts every program from one thread that lives as long as this process: the kernel sends Pdeathsig when the
// thread that started a child ends, not the process.
func (p *Processes) runStarts() {
	runtime.LockOSThread()
	for start := range p.starts {
		start()
	}
}

// Program is what to start. Files are its descriptors 0, 1 and 2.
type Program struct {
	Path        string
	Arguments   []string
	Directory   string
	Environment []string
	Files       []*os.File
	Terminal    bool // descriptor 0 becomes its controlling terminal
}

// start starts a program in a session of its own. Its exit comes on the channel, once.
func (p *Processes) start(program Program) (int, <-chan syscall.WaitStatus, error) {
	var (
		pid  int
		err  error
		exit = make(chan syscall.WaitStatus, 1)
		done = make(chan struct{})
	)
	descriptors := make([]uintptr, len(program.Files))
	for index, file := range program.Files {
		descriptors[index] = file.Fd()
	}
	p.starts <- func() {
		defer close(done)
		p.mutex.Lock() // until it is registered: it may exit before
		defer p.mutex.Unlock()
		attributes := &syscall.ProcAttr{
			Dir:   program.Directory,
			Env:   program.Environment,
			Files: descriptors,
			Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: program.Terminal, Pdeathsig: p.onDeath},
		}
		pid, err = syscall.ForkExec(program.Path, program.Arguments, attributes)
		if err == nil {
			p.waiting[pid] = exit
		}
	}
	<-done
	runtime.KeepAlive(program.Files)
	return pid, exit, err
}

func (p *Processes) collect() {
	for {
		p.mutex.Lock()
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			p.mutex.Unlock()
			continue
		}
		if pid <= 0 {
			p.mutex.Unlock()
			return
		}
		exit, known := p.waiting[pid]
		delete(p.waiting, pid)
		p.mutex.Unlock()
		if known {
			exit <- status
		}
	}
}

// signalGroup sends a signal to the session's processes, unless their leader has been collected: its number may belong
// to somebody else by now.
func (p *Processes) signalGroup(pid int, number syscall.Signal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if _, running := p.waiting[pid]; running {
		_ = syscall.Kill(-pid, number)
	}
}

// killAll ends every descendant: SIGHUP and SIGTERM, and after a grace SIGKILL until none is left.
func (p *Processes) killAll() {
	begin := time.Now()
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGHUP)
		_ = syscall.Kill(pid, syscall.SIGCONT) // a stopped process takes no signal
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	for {
		p.collect()
		left := descendants(os.Getpid())
		if len(left) == 0 {
			return
		}
		if time.Since(begin) > termGrace {
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if time.Since(begin) > 5*termGrace { // in the kernel's hands: a dead disk
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// process is one entry of /proc.
type process struct {
	pid, parent int
	ended       bool // it only waits to be collected
}

// listProcesses reads /proc. Processes that end meanwhile are left out.
func listProcesses() []process {
	var found []process
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		// The name, in parentheses, may contain anything: fields are counted from its end.
		_, rest, separated := strings.Cut(string(content)[strings.LastIndexByte(string(content), ')')+1:], " ")
		fields := strings.Fields(rest)
		if err != nil || !separated || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			found = append(found, process{pid: pid, parent: parent, ended: fields[0] == "Z" || fields[0] == "X"})
		}
	}
	return found
}

// descendants lists all processes below one.
func descendants(root int) []int {
	return descendantsAmong(listProcesses(), root)
}

func descendantsAmong(processes []process, root int) []int {
	children := map[int][]int{}
	for _, each := range processes {
		children[each.parent] = append(children[each.parent], each.pid)
	}
	var found []int
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// findProgram looks a program up in the PATH of its own environment.
func findProgram(name string, environment []string) (string, error) {
	if strings.Contains(name, "/") {
		if isExecutable(name) {
			return name, nil
		}
		return "", exec.ErrNotFound
	}
	for _, each := range environment {
		if path, isPath := strings.CutPrefix(each, "PATH="); isPath {
			for _, directory := range filepath.SplitList(path) {
				if candidate := filepath.Join(directory, name); isExecutable(candidate) {
					return candidate, nil
				}
			}
		}
	}
	return "", exec.ErrNotFound
}

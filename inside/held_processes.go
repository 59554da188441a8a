package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxRunningProcesses = 16
	maxKeptProcesses    = 64
	processKept         = 24 * time.Hour // after its end, with its output
)

var processID = regexp.MustCompile(`^[0-9a-f]{12}$`)

var (
	errNoProcess      = errors.New("there is no such process; a workspace forgets them when it stops")
	errProcessesFull  = fmt.Errorf("%d detached processes run, as many as may at a time", maxRunningProcesses)
	errProcessRefused = errors.New("this is started by CodeHub")
)

// heldProcesses are the detached commands of a workspace, in the order they were started.
type heldProcesses struct {
	mutex sync.Mutex
	list  []*HeldProcess
}

func (h *heldProcesses) find(id string) *HeldProcess {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, each := range h.list {
		if each.entry.ID == id {
			return each
		}
	}
	return nil
}

// forgetOld drops what ended long ago, and the oldest that ended if there are too many. It returns how many are left.
func (h *heldProcesses) forgetOld(now time.Time) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	surplus := len(h.list) - maxKeptProcesses
	h.list = slices.DeleteFunc(h.list, func(each *HeldProcess) bool {
		each.mutex.Lock()
		defer each.mutex.Unlock()
		if each.endedAt.IsZero() {
			return false
		}
		surplus--
		return surplus >= 0 || now.Sub(each.endedAt) > processKept
	})
	return len(h.list)
}

// start starts a command. The lock is held until it is in the list: so many and no more run.
func (h *heldProcesses) start(request Request, account Account, processes *Processes, onExit func()) (*HeldProcess, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	running := 0
	for _, each := range h.list {
		if each.entry.ID == request.Process {
			return nil, errProcessRefused
		}
		if !each.hasEnded() {
			running++
		}
	}
	if running >= maxRunningProcesses {
		return nil, errProcessesFull
	}
	held, failure := holdProcess(request, account, processes, onExit)
	if failure != nil {
		return nil, failure
	}
	h.list = append(h.list, held)
	return held, nil
}

func (h *heldProcesses) describe() []ProcessEntry {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	entries := []ProcessEntry{}
	for _, each := range h.list {
		entries = append(entries, each.describe())
	}
	return entries
}

// serveProcess answers one client about detached processes: a line of JSON, or frames if it asks for output.
func (h *Holder) serveProcess(connection net.Conn, request Request) {
	if request.Do == "process_logs" {
		h.serveLogs(connection, request)
		return
	}
	answer, err := h.answerProcess(request)
	if err != nil {
		answer = &Answer{Error: errorCode(err), Message: err.Error()}
	}
	if line, err := json.Marshal(answer); err == nil {
		_, _ = connection.Write(append(line, '\n'))
	}
}

func (h *Holder) answerProcess(request Request) (*Answer, error) {
	h.detached.forgetOld(time.Now())
	if request.Do == "process_list" {
		return &Answer{Processes: h.detached.describe()}, nil
	}
	if !processID.MatchString(request.Process) {
		return nil, errProcessRefused
	}
	var held *HeldProcess
	switch request.Do {
	case "process_start":
		started, err := h.detached.start(request, h.account, h.processes, func() { h.count(0) })
		if err != nil {
			return nil, err
		}
		held = started
	case "process_kill":
		number, known := signalNumbers[request.Signal]
		if !known {
			return nil, errProcessRefused
		}
		if held = h.detached.find(request.Process); held == nil {
			return nil, errNoProcess
		}
		held.signal(number)
	default:
		return nil, errProcessRefused
	}
	return &Answer{Processes: []ProcessEntry{held.describe()}}, nil
}

func (h *Holder) serveLogs(connection net.Conn, request Request) {
	told := &frameWriter{out: connection}
	held := h.detached.find(request.Process)
	if held == nil {
		_ = told.write(frameRefused, []byte(errNoProcess.Error()))
		return
	}
	_ = told.write(frameAttached, nil)
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, connection) // it says nothing more: this waits for its end
		close(gone)
	}()
	held.tell(told, request.Follow, gone)
}

// dialHolder connects to the holder with a request. Without mayStart there may be none: then nothing was ever detached.
func dialHolder(request Request, mayStart bool) (net.Conn, error) {
	directory, err := terminalDirectory(socketPlaces, findAccount().Home)
	if err != nil {
		return nil, err
	}
	start := func() error { return startHolder(directory) }
	if !mayStart {
		start = func() error { return errNoProcess }
	}
	connection, err := reachHolder(filepath.Join(directory, socketName), start)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(request)
	if err == nil {
		_, err = connection.Write(append(line, '\n'))
	}
	if err != nil {
		connection.Close()
		return nil, err
	}
	return connection, nil
}

// askHolder passes a request about detached processes on to the holder, and returns its answer.
func askHolder(request Request) (*Answer, error) {
	connection, err := dialHolder(request, request.Do == "process_start")
	if errors.Is(err, errNoProcess) && request.Do == "process_list" {
		return &Answer{Processes: []ProcessEntry{}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	answer := &Answer{}
	return answer, json.NewDecoder(bufio.NewReader(connection)).Decode(answer)
}

// followProcess passes frames of the holder on to CodeHub, until either ends.
func followProcess(request Request, told *frameWriter, lost <-chan struct{}) {
	connection, err := dialHolder(request, false)
	if err != nil {
		_ = told.write(frameRefused, []byte(err.Error()))
		return
	}
	go func() {
		<-lost
		connection.Close()
	}()
	buffer := make([]byte, maxTerminalFrame)
	for {
		kind, data, err := readFrame(connection, buffer)
		if err != nil || told.write(kind, data) != nil {
			return
		}
	}
}

// isAboutProcesses tells requests to the holder from terminals.
func isAboutProcesses(do string) bool { return strings.HasPrefix(do, "process_") }

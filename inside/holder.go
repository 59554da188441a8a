package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxTerminals        = 8
	maxTerminalLine     = 4096
	terminalLineTimeout = 20 * time.Second
	holderIdle          = 30 * time.Second
	maxWindow           = 1000
	holderHello         = '+'
	holderName          = "codehub-hold"
)

var terminalName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// terminalSize is a window in characters. It comes from outside, so it is bounded.
type terminalSize struct {
	Columns uint16 `json:"columns"`
	Rows    uint16 `json:"rows"`
}

func (s terminalSize) window() windowSize {
	within := func(value uint16) uint32 { return uint32(max(1, min(value, maxWindow))) }
	return windowSize{Columns: within(s.Columns), Rows: within(s.Rows)}
}

// terminalOpening is the first line of a client, a JSON object.
type terminalOpening struct {
	terminalSize
	Name   string `json:"name"`
	Client string `json:"client"`
	Resume bool   `json:"resume"` // it comes back by itself: it takes the terminal from nobody
}

// Holder owns the terminals and the detached processes of a workspace. There is one for each workspace, started by the first client. It ends when
// it has had neither terminal, process nor client for a while, and with the workspace.
type Holder struct {
	processes *Processes
	account   Account

	mutex     sync.Mutex
	terminals map[string]*HeldTerminal
	clients   int
	idleSince time.Time
	detached  heldProcesses
}

func newHolder(processes *Processes, account Account) *Holder {
	return &Holder{
		processes: processes, account: account, terminals: map[string]*HeldTerminal{}, idleSince: time.Now(),
	}
}

// hold serves terminals on the socket of a directory. Only one process does: a second one returns at once. start makes
// this process the one that collects exits.
func hold(directory string, start func() *Processes) error {
	lock, err := os.OpenFile(filepath.Join(directory, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // and with it the lock goes, however this process ends
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	path := filepath.Join(directory, socketName)
	_ = os.Remove(path) // of a holder that was killed
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	_ = os.Chdir("/")
	_ = os.WriteFile("/proc/self/comm", []byte(holderName), 0) // by which CodeHub finds detached processes
	holder := newHolder(start(), findAccount())
	go holder.endWhenIdle(listener)
	return holder.serve(listener)
}

func (h *Holder) serve(listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil { // no descriptors are left, for example: somebody may close one
			time.Sleep(100 * time.Millisecond)
			continue
		}
		h.count(1)
		go func() {
			defer h.count(-1)
			defer connection.Close()
			h.serveClient(connection)
		}()
	}
}

func (h *Holder) count(change int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.clients += change
	h.idleSince = time.Now()
}

// endWhenIdle closes the listener. A client that comes at this moment is not greeted, and starts a new holder.
func (h *Holder) endWhenIdle(listener net.Listener) {
	for range time.Tick(holderIdle / 10) {
		h.mutex.Lock()
		idle := h.clients == 0 && len(h.terminals) == 0 && time.Since(h.idleSince) > holderIdle &&
			h.detached.forgetOld(time.Now()) == 0
		h.mutex.Unlock()
		if idle {
			listener.Close()
			return
		}
	}
}

func (h *Holder) serveClient(connection net.Conn) {
	_ = connection.SetDeadline(time.Now().Add(terminalLineTimeout))
	if _, err := connection.Write([]byte{holderHello}); err != nil {
		return
	}
	reader := bufio.NewReaderSize(connection, maxTerminalLine)
	line, err := readObject(reader)
	var request Request
	if err == nil && json.Unmarshal(line, &request) == nil && isAboutProcesses(request.Do) {
		_ = connection.SetDeadline(time.Time{})
		h.serveProcess(connection, request)
		return
	}
	var wanted terminalOpening
	if err != nil || json.Unmarshal(line, &wanted) != nil || !terminalName.MatchString(wanted.Name) {
		_ = writeFrame(connection, frameRefused, []byte("This is started by CodeHub."))
		return
	}
	_ = connection.SetDeadline(time.Time{})
	held, isNew, err := h.find(wanted)
	switch {
	case errors.Is(err, errFull):
		_ = writeFrame(connection, frameFull, nil)
	case err != nil:
		_ = writeFrame(connection, frameRefused, []byte(err.Error()))
	default:
		held.serve(&readAhead{Conn: connection, reader: reader}, wanted, isNew)
	}
}

// readObject reads a line that begins as JSON does. What does not is not waited for.
func readObject(reader *bufio.Reader) ([]byte, error) {
	if first, err := reader.Peek(1); err != nil || first[0] != '{' {
		return nil, errFrame
	}
	return readLine(reader)
}

// readAhead is a connection of which a part was read before.
type readAhead struct {
	net.Conn
	reader *bufio.Reader
}

func (r *readAhead) Read(buffer []byte) (int, error) { return r.reader.Read(buffer) }

var errFull = errors.New("too many terminals")

// find returns the terminal of a name, and starts it if there is none. Above the limit the one that nobody has used for
// longest makes place.
func (h *Holder) find(wanted terminalOpening) (*HeldTerminal, bool, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if held, known := h.terminals[wanted.Name]; known {
		return held, false, nil
	}
	if h.account.Shell == "" {
		return nil, false, fmt.Errorf("This image has no shell (looked for %s).", strings.Join(shells, ", "))
	}
	if len(h.terminals) >= maxTerminals && !h.makePlace() {
		return nil, false, errFull
	}
	held, err := holdTerminal(h.processes, h.account, wanted.window(), func(ended *HeldTerminal) {
		h.forget(wanted.Name, ended)
	})
	if err != nil {
		return nil, false, fmt.Errorf("The shell could not be started: %w.", err)
	}
	h.terminals[wanted.Name] = held
	held.lastClient = wanted.Client
	return held, true, nil
}

func (h *Holder) makePlace() bool {
	var oldest string
	var oldestAt time.Time
	for name, held := range h.terminals {
		if at, isFree := held.detachedSince(); isFree && (oldest == "" || at.Before(oldestAt)) {
			oldest, oldestAt = name, at
		}
	}
	if oldest == "" {
		return false
	}
	h.terminals[oldest].hangUp()
	delete(h.terminals, oldest)
	return true
}

func (h *Holder) forget(name string, held *HeldTerminal) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.terminals[name] == held {
		delete(h.terminals, name)
	}
	h.idleSince = time.Now()
}

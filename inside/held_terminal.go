package main

import (
	"encoding/binary"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sendWindow      = 64 * 1024 // of output that an attached client has not taken; then the program waits
	terminalSilence = 75 * time.Second
	takeOverGrace   = 2 * time.Second
)

// HeldTerminal is a shell on a pseudo-terminal that stays when its client leaves.
//
// While a client is attached, the program waits for it, as with every terminal. While none is, the output goes on and
// the latest part of it is kept.
type HeldTerminal struct {
	terminal  *Terminal
	processes *Processes
	pid       int

	attaching sync.Mutex // one client after the other

	mutex      sync.Mutex
	changed    *sync.Cond
	ring       outputRing
	client     *attachment // nil: nobody
	lastClient string      // whose it was last: only they may come back by themselves
	detachedAt time.Time
	ended      bool // the shell has, and all of its output was read
	exitCode   byte
}

// attachment is one client. Its fields belong to the terminal's mutex.
type attachment struct {
	connection net.Conn
	position   int64 // of the next byte to send
	replayEnd  int64
	live       bool
	last       byte // the frame to end with; 0: it goes on
	gone       bool // nobody is there to be told
	done       sync.WaitGroup
}

// holdTerminal starts a login shell. onExit is called once, when its output has ended.
func holdTerminal(processes *Processes, account Account, size windowSize, onExit func(*HeldTerminal)) (*HeldTerminal, error) {
	terminal, err := openTerminal()
	if err != nil {
		return nil, err
	}
	_ = terminal.resize(size)
	program := Program{
		Environment: account.terminalEnvironment(),
		Directory:   account.Home,
		Terminal:    true,
		Files:       []*os.File{terminal.slave, terminal.slave, terminal.slave},
	}
	program.Path, program.Arguments = account.shellCommand("")
	pid, exited, err := processes.start(program)
	terminal.slave.Close()
	if err != nil {
		terminal.master.Close()
		return nil, err
	}
	held := &HeldTerminal{terminal: terminal, processes: processes, pid: pid, detachedAt: time.Now()}
	held.changed = sync.NewCond(&held.mutex)
	go held.keepOutput(exited, onExit)
	return held, nil
}

// keepOutput reads until the kernel hangs the terminal up, which it does when the shell has ended.
func (t *HeldTerminal) keepOutput(exited <-chan syscall.WaitStatus, onExit func(*HeldTerminal)) {
	buffer := make([]byte, 32*1024)
	for {
		count, err := t.terminal.master.Read(buffer)
		t.mutex.Lock()
		t.ring.append(buffer[:count])
		t.changed.Broadcast()
		for t.client != nil && t.ring.end-t.client.position > sendWindow {
			t.changed.Wait()
		}
		t.mutex.Unlock()
		if err != nil {
			break
		}
	}
	t.terminal.master.Close()
	status := <-exited
	onExit(t)
	t.mutex.Lock()
	t.ended, t.exitCode = true, exitCodeOf(status)
	t.changed.Broadcast()
	t.mutex.Unlock()
}

// serve attaches a client and returns when it has left, or was replaced. A client that comes back by itself does not
// take the terminal from another one.
func (t *HeldTerminal) serve(connection net.Conn, wanted terminalOpening, isNew bool) {
	attached := t.attach(connection, wanted)
	if attached == nil {
		_ = writeFrame(connection, frameTaken, nil)
		return
	}
	first := []byte{0}
	if isNew {
		first[0] = 1
	}
	attached.done.Add(2)
	t.attaching.Unlock()
	go func() {
		defer attached.done.Done()
		if writeFrame(connection, frameAttached, first) == nil {
			t.send(attached)
		}
		connection.Close() // ends receive
	}()
	t.receive(attached)
	t.detach(attached, 0)
	attached.done.Done()
	attached.done.Wait()
}

// attach makes this client the terminal's, with attaching locked; nil: it is another one's.
func (t *HeldTerminal) attach(connection net.Conn, wanted terminalOpening) *attachment {
	t.attaching.Lock()
	t.mutex.Lock()
	if wanted.Resume && t.lastClient != wanted.Client {
		t.mutex.Unlock()
		t.attaching.Unlock()
		return nil
	}
	earlier := t.client
	t.mutex.Unlock()
	if earlier != nil {
		t.detach(earlier, frameTaken)
		earlier.done.Wait()
	}
	_ = t.terminal.master.SetWriteDeadline(time.Time{})
	t.mutex.Lock()
	defer t.mutex.Unlock()
	attached := &attachment{connection: connection, position: t.ring.replayFrom(), replayEnd: t.ring.end}
	t.client, t.lastClient = attached, wanted.Client
	_ = t.terminal.resize(wanted.window())
	if attached.position > 0 {
		t.askToDraw()
	}
	return attached
}

// askToDraw tells the program in the foreground that its window has changed: what is replayed may lack the beginning.
func (t *HeldTerminal) askToDraw() {
	_ = t.terminal.control(func(descriptor int) error {
		group, err := unix.IoctlGetInt(descriptor, unix.TIOCGPGRP)
		if err == nil && group > 0 {
			_ = syscall.Kill(-group, syscall.SIGWINCH)
		}
		return err
	})
}

// detach ends an attachment, with a last frame if there is time to send it.
func (t *HeldTerminal) detach(attached *attachment, last byte) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.client == attached {
		t.client, t.detachedAt = nil, time.Now()
		// A program that does not read keeps its writer waiting: that one has to go, too.
		_ = t.terminal.master.SetWriteDeadline(time.Now())
	}
	if attached.last == 0 { // who was replaced is still to be told
		attached.last, attached.gone = last, last == 0
	}
	_ = attached.connection.SetWriteDeadline(time.Now().Add(takeOverGrace))
	t.changed.Broadcast()
}

// receive passes on what the client types, until it leaves or says nothing for too long.
func (t *HeldTerminal) receive(attached *attachment) {
	buffer := make([]byte, maxTerminalFrame)
	for {
		_ = attached.connection.SetReadDeadline(time.Now().Add(terminalSilence))
		kind, data, err := readFrame(attached.connection, buffer)
		if err != nil {
			return
		}
		switch kind {
		case frameInput:
			if _, err := t.terminal.master.Write(data); err != nil {
				return
			}
		case frameResize:
			if len(data) != 4 {
				return
			}
			_ = t.terminal.resize(terminalSize{binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:])}.window())
		case frameHeartbeat:
		default:
			return
		}
	}
}

// send sends recent output, then new output as it comes, and at last how it ended.
func (t *HeldTerminal) send(attached *attachment) {
	buffer := make([]byte, 32*1024)
	for {
		kind, data, isLast := t.next(attached, buffer)
		if kind == 0 || writeFrame(attached.connection, kind, data) != nil || isLast {
			return
		}
		t.mutex.Lock()
		if kind == frameOutput { // now, not before: what is on its way counts
			attached.position += int64(len(data))
		}
		t.changed.Broadcast()
		t.mutex.Unlock()
	}
}

// next waits for the next frame to send; 0: none, ever.
func (t *HeldTerminal) next(attached *attachment, buffer []byte) (kind byte, data []byte, isLast bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for {
		limit := t.ring.end
		if !attached.live {
			limit = attached.replayEnd
		}
		switch {
		case attached.gone:
			return 0, nil, true
		case attached.last != 0:
			return attached.last, nil, true
		case attached.position < limit:
			return frameOutput, buffer[:t.ring.read(attached.position, limit, buffer)], false
		case !attached.live:
			attached.live = true
			return frameLive, nil, false
		case t.ended:
			return frameExit, []byte{t.exitCode}, true
		}
		t.changed.Wait()
	}
}

// detachedSince tells since when nobody is attached; false: somebody is.
func (t *HeldTerminal) detachedSince() (time.Time, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.detachedAt, t.client == nil
}

// hangUp ends the shell, as a line that was cut does, and what ignores that.
func (t *HeldTerminal) hangUp() {
	t.processes.signalGroup(t.pid, syscall.SIGHUP)
	t.terminal.master.Close()
	time.AfterFunc(termGrace, func() { t.processes.signalGroup(t.pid, syscall.SIGKILL) })
}

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	exitSignaled    = 128
	maxWaitingInput = 1 << 20 // of standard input that the command has not read; CodeHub keeps below it
	outputPiece     = 32 * 1024
	defaultTerm     = "TERM=xterm-256color"
)

// serveCommand runs a command that ends with its connection: it and everything it started, daemons too. After its first
// line, standard input and output carry frames. The end is a frame, and this program stays until CodeHub closes: an
// engine may drop what is not read yet when a command ends, and a slow reader would lose the end.
func serveCommand(in io.Reader, out io.Writer) int {
	reader := bufio.NewReaderSize(in, 64*1024)
	request, err := readRequest(reader)
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		return 1
	}
	told := &frameWriter{out: out}
	link := newCommandLink()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-stop
		link.lose()
	}()
	switch request.Do {
	case "exec":
		return superviseCommand(request, findAccount(), reader, told, link)
	case "process_logs":
		go link.receive(reader, ignoreFrames{})
		followProcess(request, told, link.lost)
	default:
		_ = told.write(frameRefused, []byte("This is started by CodeHub."))
	}
	<-link.lost
	return 0
}

// superviseCommand starts the command, and returns after its end, or when the connection is lost.
func superviseCommand(request Request, account Account, reader io.Reader, told *frameWriter, link *commandLink) int {
	processes := newProcesses(false)
	defer processes.killAll()
	_ = told.write(frameAttached, nil)
	running, err := startCommand(request, account, processes, told)
	if err != nil {
		go link.receive(reader, ignoreFrames{})
		_ = told.write(frameErrors, []byte("inside: "+err.why+"\n"))
		_ = told.write(frameExit, []byte{err.code})
		<-link.lost
		return 0
	}
	go link.receive(reader, running)
	select {
	case <-link.lost:
		return 1
	case status := <-running.exited:
		processes.killAll() // what it left has its output open
		select {
		case <-running.outputEnded:
			_ = told.write(frameExit, []byte{exitCodeOf(status)})
			<-link.lost
		case <-link.lost:
		}
		return 0
	}
}

// runningCommand is a command with its input, which waits in a queue of its own: the connection is always read, so that
// its end and signals are noticed while the command does not read.
type runningCommand struct {
	processes   *Processes
	pid         int
	exited      <-chan syscall.WaitStatus
	outputEnded chan struct{}
	terminal    *Terminal // nil: pipes
	input       *inputQueue
}

func startCommand(request Request, account Account, processes *Processes, told *frameWriter) (*runningCommand, *startError) {
	environment := mergeEnvironment(os.Environ(), request.Environment)
	if request.Size != nil {
		environment = mergeEnvironment([]string{defaultTerm}, environment)
	}
	program, failure := prepareProgram(request, account, environment)
	if failure != nil {
		return nil, failure
	}
	running := &runningCommand{processes: processes, outputEnded: make(chan struct{})}
	var err error
	if request.Size != nil {
		err = running.startOnTerminal(program, *request.Size, told)
	} else {
		err = running.startOnPipes(program, told)
	}
	if err != nil {
		return nil, &startError{exitNotExecutable, fmt.Sprintf("%s: %v", request.Arguments[0], err)}
	}
	_ = running.takeInput(request.Input)
	return running, nil
}

func (c *runningCommand) startOnPipes(program Program, told *frameWriter) error {
	pipes, err := openPipes()
	if err != nil {
		return err
	}
	program.Files = pipes.child
	c.pid, c.exited, err = c.processes.start(program)
	pipes.closeChild()
	if err != nil {
		pipes.closeOwn()
		return err
	}
	c.input = newInputQueue(pipes.stdin, told)
	var copying sync.WaitGroup
	copying.Go(func() { copyFrames(told, frameOutput, pipes.stdout) })
	copying.Go(func() { copyFrames(told, frameErrors, pipes.stderr) })
	go func() {
		copying.Wait()
		close(c.outputEnded)
	}()
	return nil
}

func (c *runningCommand) startOnTerminal(program Program, size terminalSize, told *frameWriter) error {
	terminal, err := openTerminal()
	if err != nil {
		return err
	}
	_ = terminal.resize(size.window())
	program.Files, program.Terminal = []*os.File{terminal.slave, terminal.slave, terminal.slave}, true
	c.pid, c.exited, err = c.processes.start(program)
	terminal.slave.Close()
	if err != nil {
		terminal.master.Close()
		return err
	}
	c.terminal = terminal
	c.input = newInputQueue(terminal.master, told)
	go func() {
		copyFrames(told, frameOutput, terminal.master)
		close(c.outputEnded)
	}()
	return nil
}

// takeFrame does what one frame of CodeHub says. An error: it is none, and the connection is of no use.
func (c *runningCommand) takeFrame(kind byte, data []byte) error {
	switch kind {
	case frameInput:
		return c.takeInput(data)
	case frameInputEnd:
		if c.terminal == nil { // a terminal has no end of input
			c.input.end()
		}
	case frameSignal:
		number, known := signalNumbers[string(data)]
		if !known {
			return errFrame
		}
		c.processes.signalGroup(c.pid, number)
	case frameResize:
		if len(data) != 4 {
			return errFrame
		}
		if c.terminal != nil {
			_ = c.terminal.resize(terminalSize{binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:])}.window())
		}
	default:
		return errFrame
	}
	return nil
}

func (c *runningCommand) takeInput(data []byte) error {
	if !c.input.add(data) {
		return errFrame
	}
	return nil
}

func copyFrames(told *frameWriter, kind byte, from io.Reader) {
	buffer := make([]byte, outputPiece)
	for {
		count, err := from.Read(buffer)
		if count > 0 && told.write(kind, buffer[:count]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

func exitCodeOf(status syscall.WaitStatus) byte {
	if status.Signaled() {
		return exitSignaled + byte(status.Signal())
	}
	return byte(status.ExitStatus())
}

// commandLink notices the end of a connection: it closes, or nothing is heard for too long.
type commandLink struct {
	lost chan struct{}
	once sync.Once
}

func newCommandLink() *commandLink { return &commandLink{lost: make(chan struct{})} }

func (l *commandLink) lose() { l.once.Do(func() { close(l.lost) }) }

type frameTaker interface {
	takeFrame(kind byte, data []byte) error
}

type ignoreFrames struct{}

func (ignoreFrames) takeFrame(byte, []byte) error { return nil }

func (l *commandLink) receive(reader io.Reader, taker frameTaker) {
	defer l.lose()
	silence := time.AfterFunc(requestSilence, l.lose)
	buffer := make([]byte, maxTerminalFrame)
	for {
		kind, data, err := readFrame(reader, buffer)
		if err != nil {
			return
		}
		silence.Reset(requestSilence)
		if kind != frameHeartbeat && taker.takeFrame(kind, data) != nil {
			return
		}
	}
}

// inputQueue passes input on to a command that may not read it, and tells CodeHub how much was taken.
type inputQueue struct {
	to   io.WriteCloser
	told *frameWriter

	mutex   sync.Mutex
	changed *sync.Cond
	waiting []byte
	ended   bool
}

func newInputQueue(to io.WriteCloser, told *frameWriter) *inputQueue {
	queue := &inputQueue{to: to, told: told}
	queue.changed = sync.NewCond(&queue.mutex)
	go queue.pass()
	return queue
}

// add keeps input. False: there is more than CodeHub sends before it was taken.
func (q *inputQueue) add(data []byte) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.waiting)+len(data) > maxWaitingInput {
		return false
	}
	if !q.ended {
		q.waiting = append(q.waiting, data...)
		q.changed.Signal()
	}
	return true
}

func (q *inputQueue) end() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.ended = true
	q.changed.Signal()
}

func (q *inputQueue) pass() {
	for {
		q.mutex.Lock()
		for len(q.waiting) == 0 && !q.ended {
			q.changed.Wait()
		}
		piece := q.waiting[:min(len(q.waiting), maxTerminalFrame)]
		q.mutex.Unlock()
		if len(piece) == 0 {
			_ = q.to.Close()
			return
		}
		// A command that has closed its input takes all of it: whoever sends is not to wait for ever.
		_, err := q.to.Write(piece)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		q.mutex.Lock()
		q.waiting = q.waiting[len(piece):]
		q.mutex.Unlock()
		var count [4]byte
		binary.BigEndian.PutUint32(count[:], uint32(len(piece)))
		if q.told.write(frameTook, count[:]) != nil {
			return
		}
	}
}

// frameWriter writes frames of several writers, one after the other.
type frameWriter struct {
	mutex sync.Mutex
	out   io.Writer
}

func (w *frameWriter) write(kind byte, data []byte) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return writeFrame(w.out, kind, data)
}

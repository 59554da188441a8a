package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	processMark     = "CODEHUB_PROCESS_ID="
	processGrace    = 5 * time.Second // between a signal that asks to end, and SIGKILL
	outputGrace     = 2 * time.Second // for what somebody else holds open after the end
	maxShownCommand = 500
)

// askToEnd are the signals that are followed by SIGKILL.
var askToEnd = map[syscall.Signal]bool{
	syscall.SIGTERM: true, syscall.SIGINT: true, syscall.SIGHUP: true, syscall.SIGQUIT: true, syscall.SIGKILL: true,
}

// HeldProcess is a detached command. It belongs to the workspace, not to a connection; its output is kept, the latest
// part of it, and it never waits for a reader.
type HeldProcess struct {
	processes *Processes
	pid       int
	entry     ProcessEntry // its fixed part
	deadline  *time.Timer

	mutex    sync.Mutex
	changed  *sync.Cond
	log      processLog
	endedAt  time.Time // zero: it runs
	exitCode byte
	timedOut bool
}

// ProcessEntry is a detached command as CodeHub's API lists it.
type ProcessEntry struct {
	ID          string     `json:"id"`
	Command     string     `json:"command"`
	PID         int        `json:"pid"`
	StartedAt   time.Time  `json:"started_at"`
	EndedAt     *time.Time `json:"ended_at"`
	ExitCode    *int       `json:"exit_code"`
	TimedOut    bool       `json:"timed_out"`
	OutputBytes int64      `json:"output_bytes"`
	LostBytes   int64      `json:"lost_bytes"` // of the output: the beginning, which is not kept
}

func holdProcess(request Request, account Account, processes *Processes, onExit func()) (*HeldProcess, *startError) {
	environment := mergeEnvironment(os.Environ(), request.Environment)
	environment = mergeEnvironment(environment, []string{processMark + request.Process})
	program, failure := prepareProgram(request, account, environment)
	if failure != nil {
		return nil, failure
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, &startError{exitNotExecutable, err.Error()}
	}
	program.Files = pipes.child
	pid, exited, err := processes.start(program)
	pipes.closeChild()
	if err != nil {
		pipes.closeOwn()
		return nil, &startError{exitNotExecutable, request.Arguments[0] + ": " + err.Error()}
	}
	held := &HeldProcess{processes: processes, pid: pid, entry: ProcessEntry{
		ID: request.Process, Command: shownCommand(request.Arguments), PID: pid, StartedAt: time.Now().UTC(),
	}}
	held.changed = sync.NewCond(&held.mutex)
	if request.TimeoutSeconds > 0 {
		held.deadline = time.AfterFunc(time.Duration(request.TimeoutSeconds*float64(time.Second)), held.expire)
	}
	go func() {
		_, _ = pipes.stdin.Write(request.Input)
		pipes.stdin.Close()
	}()
	go held.keepOutput(pipes, exited, onExit)
	return held, nil
}

func (p *HeldProcess) keepOutput(pipes *Pipes, exited <-chan syscall.WaitStatus, onExit func()) {
	var reading sync.WaitGroup
	reading.Go(func() { p.read(frameOutput, pipes.stdout) })
	reading.Go(func() { p.read(frameErrors, pipes.stderr) })
	status := <-exited
	p.killRest() // nothing is left that no list has
	late := time.AfterFunc(outputGrace, pipes.closeOwn)
	reading.Wait()
	late.Stop()
	pipes.closeOwn()
	if p.deadline != nil {
		p.deadline.Stop()
	}
	p.mutex.Lock()
	p.endedAt, p.exitCode = time.Now().UTC(), exitCodeOf(status)
	p.changed.Broadcast()
	p.mutex.Unlock()
	onExit()
}

func (p *HeldProcess) read(kind byte, from io.Reader) {
	buffer := make([]byte, outputPiece)
	for {
		count, err := from.Read(buffer)
		p.mutex.Lock()
		p.log.append(kind, buffer[:count])
		p.changed.Broadcast()
		p.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *HeldProcess) expire() {
	p.mutex.Lock()
	p.timedOut = true
	p.mutex.Unlock()
	p.signal(syscall.SIGTERM)
}

// signal sends a signal to the process and its group. One that asks to end is followed by SIGKILL for all it started.
func (p *HeldProcess) signal(number syscall.Signal) {
	p.processes.signalGroup(p.pid, number)
	switch {
	case number == syscall.SIGKILL:
		go p.killRest()
	case askToEnd[number]:
		time.AfterFunc(processGrace, func() {
			if !p.hasEnded() {
				p.killRest()
			}
		})
	}
}

// killRest kills all that the process started, found by its mark, also what has left its group.
func (p *HeldProcess) killRest() {
	_ = signalMarked("KILL", processMark+p.entry.ID)
}

func (p *HeldProcess) hasEnded() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !p.endedAt.IsZero()
}

func (p *HeldProcess) describe() ProcessEntry {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	entry := p.entry
	entry.OutputBytes, entry.LostBytes, entry.TimedOut = p.log.end, p.log.begin, p.timedOut
	if !p.endedAt.IsZero() {
		at, code := p.endedAt, int(p.exitCode)
		entry.EndedAt, entry.ExitCode = &at, &code
	}
	return entry
}

// tell sends the kept output as frames and, if the client follows, what comes further, up to its end. A client that is
// slower than the process misses a part; gone ends the waiting.
func (p *HeldProcess) tell(told *frameWriter, follow bool, gone <-chan struct{}) {
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-gone:
			p.mutex.Lock() // whoever has looked already waits
			p.changed.Broadcast()
			p.mutex.Unlock()
		case <-finished:
		}
	}()
	var position int64
	for {
		kind, data := p.next(&position, follow, gone)
		if kind == 0 || told.write(kind, data) != nil || kind == frameExit || kind == frameLive {
			return
		}
	}
}

func (p *HeldProcess) next(position *int64, follow bool, gone <-chan struct{}) (byte, []byte) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for {
		select {
		case <-gone:
			return 0, nil
		default:
		}
		kind, data, next := p.log.read(*position)
		*position = next
		switch {
		case len(data) > 0:
			return kind, data
		case !p.endedAt.IsZero():
			return frameExit, []byte{p.exitCode}
		case !follow:
			return frameLive, nil
		}
		p.changed.Wait()
	}
}

func shownCommand(arguments []string) string {
	shown := []rune(strings.ToValidUTF8(strings.Join(arguments, " "), "\uFFFD"))
	if len(shown) > maxShownCommand {
		shown = append(shown[:maxShownCommand-1], '…')
	}
	return string(shown)
}

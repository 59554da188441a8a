package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// commandEnd is CodeHub's end of a command under way.
type commandEnd struct {
	t    *testing.T
	send *os.File
	read *os.File
	link *commandLink
}

func beginCommand(t *testing.T, request Request) commandEnd {
	t.Helper()
	input, send := testPipe(t)
	read, output := testPipe(t)
	link := newCommandLink()
	end := commandEnd{t, send, read, link}
	running, failure := startCommand(request, testAccount, testProcesses(), &frameWriter{out: output})
	if failure != nil {
		t.Fatal(failure.why)
	}
	t.Cleanup(func() { testProcesses().signalGroup(running.pid, signalNumbers["KILL"]) })
	go link.receive(input, running)
	go func() {
		status := <-running.exited
		<-running.outputEnded
		_ = writeFrame(output, frameExit, []byte{exitCodeOf(status)})
	}()
	return end
}

func (c commandEnd) tell(kind byte, data []byte) {
	c.t.Helper()
	if err := writeFrame(c.send, kind, data); err != nil {
		c.t.Fatal(err)
	}
}

// all reads up to the exit: output, errors, how much input was taken, and the code.
func (c commandEnd) all() (output, errors string, took int, code byte) {
	c.t.Helper()
	buffer := make([]byte, maxTerminalFrame)
	for {
		kind, data, err := readFrame(c.read, buffer)
		if err != nil {
			c.t.Fatal(err)
		}
		switch kind {
		case frameOutput:
			output += string(data)
		case frameErrors:
			errors += string(data)
		case frameTook:
			took += int(binary.BigEndian.Uint32(data))
		case frameExit:
			return output, errors, took, data[0]
		}
	}
}

func TestACommandTakesStreamedInput(t *testing.T) {
	command := beginCommand(t, Request{Arguments: []string{"sh", "-c", "cat; echo done >&2; exit 3"}, Input: []byte("first ")})
	go func() {
		for range 20 {
			command.tell(frameInput, bytes.Repeat([]byte("x"), 10_000))
		}
		command.tell(frameHeartbeat, nil)
		command.tell(frameInputEnd, nil)
	}()
	output, errors, took, code := command.all()
	if output != "first "+strings.Repeat("x", 200_000) || errors != "done\n" || code != 3 || took != 200_006 {
		t.Errorf("%d bytes, %q, %d taken, %d", len(output), errors, took, code)
	}
}

func TestASignalReachesACommandThatDoesNotReadItsInput(t *testing.T) {
	command := beginCommand(t, Request{Arguments: []string{"sleep", "6101"}})
	for range 10 {
		command.tell(frameInput, bytes.Repeat([]byte("x"), 60_000)) // more than a pipe holds
	}
	command.tell(frameSignal, []byte("INT"))
	if _, _, _, code := command.all(); code != 130 {
		t.Errorf("ended with %d", code)
	}
}

func TestMoreInputThanTheWindowAndNonsenseLoseTheConnection(t *testing.T) {
	for _, nonsense := range []func(commandEnd){
		func(c commandEnd) { c.tell(frameSignal, []byte("STOP")) },
		func(c commandEnd) { c.tell(frameResize, []byte("1")) },
		func(c commandEnd) { c.tell(frameOutput, nil) },
		func(c commandEnd) { _, _ = c.send.Write([]byte{frameInput, 0xFF, 0xFF, 0xFF}) },
		func(c commandEnd) {
			for range 20 {
				if writeFrame(c.send, frameInput, bytes.Repeat([]byte("x"), maxTerminalFrame)) != nil {
					return
				}
			}
		},
	} {
		command := beginCommand(t, Request{Arguments: []string{"sh", "-c", "exec sleep 6102"}})
		go nonsense(command)
		<-command.link.lost
	}
}

func TestACommandOnATerminal(t *testing.T) {
	script := `stty size; test -t 1 && echo "$TERM"; read line; stty size; exit 4`
	command := beginCommand(t, Request{Arguments: []string{"sh", "-c", script}, Environment: []string{"TERM=vt220"}, Size: &terminalSize{91, 31}})
	command.tell(frameResize, []byte{0, 101, 0, 41})
	command.tell(frameInputEnd, nil) // it has none
	command.tell(frameInput, []byte("go on\n"))
	output, _, _, code := command.all()
	if !strings.Contains(output, "vt220") || !strings.Contains(output, "41 101") || code != 4 {
		t.Errorf("%q, %d", output, code)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	for _, each := range []struct {
		request Request
		code    byte
	}{
		{Request{}, exitNotExecutable},
		{Request{Arguments: []string{"no-such-program"}}, exitNotFound},
		{Request{Arguments: []string{"/etc/passwd"}}, exitNotExecutable},
		{Request{Arguments: []string{"true"}, Directory: "/no/such/place"}, exitNotExecutable},
	} {
		if _, failure := prepareProgram(each.request, testAccount, []string{defaultPath}); failure == nil || failure.code != each.code {
			t.Errorf("%+v: %+v", each.request, failure)
		}
	}
}

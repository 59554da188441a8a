package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func (h testHolder) dial(t *testing.T, request Request) net.Conn {
	t.Helper()
	connection, err := reachHolder(h.path, func() error { return fmt.Errorf("nobody listens") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	line, _ := json.Marshal(request)
	if _, err := connection.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return connection
}

func (h testHolder) ask(t *testing.T, request Request) Answer {
	t.Helper()
	var answer Answer
	connection := h.dial(t, request)
	defer connection.Close()
	if err := json.NewDecoder(bufio.NewReader(connection)).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func (h testHolder) detach(t *testing.T, number int, script string) string {
	t.Helper()
	id := fmt.Sprintf("%012x", number)
	answer := h.ask(t, Request{Do: "process_start", Process: id, Arguments: []string{"sh", "-c", script}})
	if answer.Error != "" || len(answer.Processes) != 1 {
		t.Fatalf("not started: %+v", answer)
	}
	t.Cleanup(func() {
		if held := h.holder.detached.find(id); held != nil {
			held.killRest()
		}
	})
	return id
}

// logs reads the output of a process, and the last frame.
func (h testHolder) logs(t *testing.T, id string, follow bool) (output, errors string, last byte, code []byte) {
	t.Helper()
	connection := h.dial(t, Request{Do: "process_logs", Process: id, Follow: follow})
	buffer := make([]byte, maxTerminalFrame)
	for {
		kind, data, err := readFrame(connection, buffer)
		if err != nil {
			t.Fatal(err)
		}
		switch kind {
		case frameOutput:
			output += string(data)
		case frameErrors:
			errors += string(data)
		case frameAttached:
		default:
			return output, errors, kind, append([]byte(nil), data...)
		}
	}
}

func TestADetachedProcessIsListedFollowedAndEnded(t *testing.T) {
	holder := startTestHolder(t)
	id := holder.detach(t, 1, "echo out; echo err >&2; read line; exit 7") // its input is empty
	output, errors, last, code := holder.logs(t, id, true)
	if output != "out\n" || errors != "err\n" || last != frameExit || code[0] != 7 {
		t.Fatalf("%q %q %c %v", output, errors, last, code)
	}
	listed := holder.ask(t, Request{Do: "process_list"}).Processes
	if len(listed) != 1 || listed[0].ID != id || *listed[0].ExitCode != 7 || listed[0].OutputBytes != 8 {
		t.Fatalf("%+v", listed)
	}
	id = holder.detach(t, 2, "echo began; sleep 6001 & setsid sleep 6002 & wait")
	if _, _, last, _ := holder.logs(t, id, false); last != frameLive {
		t.Fatalf("%c", last)
	}
	waitFor(t, "its children", func() bool { return len(marked(processMark+id)) == 3 })
	holder.ask(t, Request{Do: "process_kill", Process: id, Signal: "TERM"})
	_, _, last, code = holder.logs(t, id, true)
	if last != frameExit || code[0] != 143 || len(marked(processMark+id)) != 0 {
		t.Fatalf("%c %v %v", last, code, marked(processMark+id))
	}
}

func TestADetachedProcessThatIgnoresTheEndIsKilledAndTimeoutsCount(t *testing.T) {
	holder := startTestHolder(t)
	id := holder.detach(t, 1, "trap '' TERM HUP; echo began; while :; do sleep 1; done")
	waitFor(t, "its output", func() bool {
		output, _, _, _ := holder.logs(t, id, false)
		return output == "began\n"
	})
	holder.ask(t, Request{Do: "process_kill", Process: id, Signal: "KILL"})
	if _, _, last, code := holder.logs(t, id, true); last != frameExit || code[0] != 137 {
		t.Fatalf("%c %v", last, code)
	}
	answer := holder.ask(t, Request{
		Do: "process_start", Process: "abcdefabcdef", Arguments: []string{"sleep", "6003"}, TimeoutSeconds: 0.05,
	})
	if answer.Error != "" {
		t.Fatal(answer)
	}
	if _, _, last, code := holder.logs(t, "abcdefabcdef", true); last != frameExit || code[0] != 143 {
		t.Fatalf("%c %v", last, code)
	}
	for _, each := range holder.ask(t, Request{Do: "process_list"}).Processes {
		if each.TimedOut != (each.ID == "abcdefabcdef") {
			t.Errorf("%+v", each)
		}
	}
}

func TestSoManyDetachedProcessesRun(t *testing.T) {
	holder := startTestHolder(t)
	for number := range maxRunningProcesses {
		holder.detach(t, number, "exec sleep 6004")
	}
	refused := holder.ask(t, Request{Do: "process_start", Process: "aaaaaaaaaaaa", Arguments: []string{"true"}})
	if refused.Error != "busy" {
		t.Fatalf("%+v", refused)
	}
	for _, request := range []Request{
		{Do: "process_start", Process: "../../x", Arguments: []string{"true"}},
		{Do: "process_start", Process: fmt.Sprintf("%012x", 1), Arguments: []string{"true"}},
		{Do: "process_kill", Process: fmt.Sprintf("%012x", 1), Signal: "STOP"},
		{Do: "process_kill", Process: "aaaaaaaaaaaa", Signal: "KILL"},
		{Do: "process_other"},
	} {
		if answer := holder.ask(t, request); answer.Error == "" {
			t.Errorf("%+v was done: %+v", request, answer)
		}
	}
	missing := holder.ask(t, Request{Do: "process_kill", Process: "aaaaaaaaaaaa", Signal: "KILL"})
	if missing.Error != "no_process" {
		t.Errorf("%+v", missing)
	}
}

func TestTheLatestOutputIsKeptAndOldProcessesAreForgotten(t *testing.T) {
	var log processLog
	for number := range 100_000 {
		kind := byte(frameOutput)
		if number%3 == 0 {
			kind = frameErrors
		}
		log.append(kind, []byte(fmt.Sprintf("%09d\n", number)))
	}
	if log.end != 1_000_000 || log.end-log.begin > maxProcessLog || log.end-log.begin < maxProcessLog-logPiece {
		t.Fatalf("%d to %d", log.begin, log.end)
	}
	var whole strings.Builder
	for position := int64(0); ; {
		_, data, next := log.read(position)
		if len(data) == 0 {
			break
		}
		whole.Write(data)
		position = next
	}
	lines := strings.Split(strings.TrimSpace(whole.String()), "\n")
	if lines[len(lines)-1] != "000099999" || int64(whole.Len()) != log.end-log.begin {
		t.Fatalf("%d bytes, the last is %s", whole.Len(), lines[len(lines)-1])
	}
	var held heldProcesses
	now := time.Now()
	for number := range maxKeptProcesses + 10 {
		process := &HeldProcess{entry: ProcessEntry{ID: fmt.Sprint(number)}}
		if number%2 == 0 {
			process.endedAt = now.Add(-time.Hour)
		}
		held.list = append(held.list, process)
	}
	if left := held.forgetOld(now); left != maxKeptProcesses || held.find("18") != nil || held.find("20") == nil {
		t.Errorf("%d are left", left)
	}
	if left := held.forgetOld(now.Add(2 * processKept)); left != (maxKeptProcesses+10)/2 {
		t.Errorf("%d are left", left)
	}
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// A pipe for a test of frames: what is written on one side is read on the other.
func testPipe(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	reading, writing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reading.Close(); writing.Close() })
	return reading, writing
}

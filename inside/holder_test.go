package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is for a machine that stands still for a while; nothing waits that long otherwise.
const patience = 60 * time.Second

var testAccount = Account{Name: "user", Home: "/", Shell: "/bin/sh"}

type testHolder struct {
	holder *Holder
	path   string
}

func startTestHolder(t *testing.T) testHolder {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	holder := newHolder(testProcesses(), testAccount)
	go func() { _ = holder.serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		holder.mutex.Lock()
		defer holder.mutex.Unlock()
		for _, held := range holder.terminals {
			held.hangUp()
		}
	})
	return testHolder{holder, path}
}

// testClient is somebody at a terminal.
type testClient struct {
	t          *testing.T
	connection net.Conn
	buffer     []byte
}

func (h testHolder) attach(t *testing.T, wanted terminalOpening) *testClient {
	t.Helper()
	connection, err := reachHolder(h.path, func() error { return fmt.Errorf("nobody listens") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	line, _ := json.Marshal(wanted)
	if _, err := connection.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return &testClient{t, connection, make([]byte, maxTerminalFrame)}
}

func (c *testClient) frame() (byte, []byte) {
	c.t.Helper()
	kind, data, err := readFrame(c.connection, c.buffer)
	if err != nil {
		c.t.Fatalf("no frame: %v", err)
	}
	return kind, data
}

// expect reads up to a frame of a kind, and returns the output before it and its data.
func (c *testClient) expect(wanted byte) (string, []byte) {
	c.t.Helper()
	var output strings.Builder
	for {
		kind, data := c.frame()
		if kind == wanted {
			return output.String(), data
		}
		if kind != frameOutput {
			c.t.Fatalf("%c instead of %c, after %q", kind, wanted, output.String())
		}
		output.Write(data)
	}
}

// until reads output up to a text.
func (c *testClient) until(text string) string {
	c.t.Helper()
	var output strings.Builder
	for !strings.Contains(output.String(), text) {
		kind, data := c.frame()
		if kind != frameOutput {
			c.t.Fatalf("%c instead of %q, after %q", kind, text, output.String())
		}
		output.Write(data)
	}
	return output.String()
}

func (c *testClient) send(kind byte, data string) {
	c.t.Helper()
	if err := writeFrame(c.connection, kind, []byte(data)); err != nil {
		c.t.Fatal(err)
	}
}

func opening(name, client string) terminalOpening {
	return terminalOpening{Name: name, terminalSize: terminalSize{80, 24}, Client: client}
}

// begin attaches and reads what was printed before.
func (h testHolder) begin(t *testing.T, wanted terminalOpening, isNew byte) (*testClient, string) {
	t.Helper()
	client := h.attach(t, wanted)
	if _, data := client.expect(frameAttached); data[0] != isNew {
		t.Fatalf("new: %d instead of %d", data[0], isNew)
	}
	replayed, _ := client.expect(frameLive)
	return client, replayed
}

func TestAShellStaysWhenItsClientLeaves(t *testing.T) {
	holder := startTestHolder(t)
	first, _ := holder.begin(t, opening("main", "one"), 1)
	first.send(frameInput, "kept=4711; echo said-$((1+1))\n")
	first.until("said-2")
	first.connection.Close()
	second, replayed := holder.begin(t, terminalOpening{Name: "main", terminalSize: terminalSize{91, 31}, Client: "two"}, 0)
	if !strings.Contains(replayed, "said-2") {
		t.Errorf("replayed %q", replayed)
	}
	second.send(frameInput, "echo still-$kept; stty size\n")
	if said := second.until("31 91"); !strings.Contains(said, "still-4711") {
		t.Errorf("said %q", said)
	}
	second.send(frameResize, "\x00\x65\x00\x29")
	second.send(frameHeartbeat, "")
	second.send(frameInput, "stty size\n")
	second.until("41 101")
	second.send(frameInput, "exit 7\n")
	if _, data := second.expect(frameExit); data[0] != 7 {
		t.Errorf("exit %d", data[0])
	}
	holder.begin(t, opening("main", "two"), 1) // a new one
}

func TestTheFirstOfTwoIsTold(t *testing.T) {
	holder := startTestHolder(t)
	first, _ := holder.begin(t, opening("main", "one"), 1)
	second, _ := holder.begin(t, opening("main", "two"), 0)
	first.expect(frameTaken)
	if _, _, err := readFrame(first.connection, first.buffer); err == nil {
		t.Error("it goes on")
	}
	// Whoever was replaced and comes back by itself does not take it back; a person who asks does.
	back := opening("main", "one")
	back.Resume = true
	holder.attach(t, back).expect(frameTaken)
	second.send(frameInput, "echo mine-$((1+1))\n")
	second.until("mine-2")
	second.connection.Close()
	again := opening("main", "two")
	again.Resume = true
	third, replayed := holder.begin(t, again, 0)
	if !strings.Contains(replayed, "mine-2") {
		t.Errorf("replayed %q", replayed)
	}
	holder.begin(t, opening("main", "one"), 0)
	third.expect(frameTaken)
}

func TestAClientThatDoesNotReadStopsItsProgramAndMakesPlace(t *testing.T) {
	holder := startTestHolder(t)
	stalled, _ := holder.begin(t, opening("main", "one"), 1)
	stalled.send(frameInput, "stty -echo; while :; do echo 0123456789012345678901234567890123456789; done\n")
	stalled.until("0123456789")
	held := holder.holder.terminals["main"]
	end := func() int64 {
		held.mutex.Lock()
		defer held.mutex.Unlock()
		return held.ring.end
	}
	for before := int64(-1); before != end(); { // the program stands still
		before = end()
		time.Sleep(300 * time.Millisecond)
	}
	held.mutex.Lock()
	behind := held.ring.end - held.client.position
	held.mutex.Unlock()
	if behind > ringBytes {
		t.Errorf("%d bytes behind", behind)
	}
	second, _ := holder.begin(t, opening("main", "two"), 0)
	second.send(frameInput, "\x03")
	second.send(frameInput, "echo back-$((1+1))\n")
	second.until("back-2")
}

func TestInputNobodyReadsDoesNotHoldTheNextClient(t *testing.T) {
	holder := startTestHolder(t)
	first, _ := holder.begin(t, opening("main", "one"), 1)
	first.send(frameInput, "stty raw -echo; echo ready; exec sleep 600\n")
	first.until("ready\n")
	written := make(chan struct{})
	go func() {
		defer close(written)
		for writeFrame(first.connection, frameInput, bytes.Repeat([]byte("x"), 16*1024)) == nil {
		}
	}()
	second, _ := holder.begin(t, opening("main", "two"), 0)
	<-written
	second.connection.Close()
	holder.begin(t, opening("main", "three"), 0)
}

func TestOutputGoesOnWhileNobodyLooksAndTheLatestIsKept(t *testing.T) {
	holder := startTestHolder(t)
	first, _ := holder.begin(t, opening("main", "one"), 1)
	first.send(frameInput, "stty -echo; sleep 0.2; seq 1 200000; echo all-$((1+1)); cat\n")
	first.until("\n")
	first.connection.Close()
	held := holder.holder.terminals["main"]
	deadline := time.Now().Add(patience)
	for {
		held.mutex.Lock()
		end := held.ring.end
		recent := make([]byte, 100)
		count := held.ring.read(max(0, end-50), end, recent)
		held.mutex.Unlock()
		if bytes.Contains(recent[:count], []byte("all-2")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it waits for somebody")
		}
		time.Sleep(20 * time.Millisecond)
	}
	_, replayed := holder.begin(t, opening("main", "two"), 0)
	lines := strings.Split(strings.TrimSpace(replayed), "\r\n")
	if len(replayed) > replayBytes || lines[len(lines)-1] != "all-2" || lines[len(lines)-2] != "200000" {
		t.Errorf("%d bytes, ending in %q", len(replayed), replayed[max(0, len(replayed)-40):])
	}
	for index, line := range lines[:len(lines)-1] { // whole lines, none missing
		if line != fmt.Sprint(200000-(len(lines)-2)+index) {
			t.Fatalf("line %d is %q", index, line)
		}
	}
}

func TestTheOneLeftLongestAgoMakesPlace(t *testing.T) {
	holder := startTestHolder(t)
	var clients []*testClient
	for number := range maxTerminals {
		client, _ := holder.begin(t, opening(fmt.Sprint("t-", number), "one"), 1)
		clients = append(clients, client)
	}
	holder.attach(t, opening("more", "one")).expect(frameFull)
	for _, number := range []int{3, 5} {
		held := holder.holder.terminals[fmt.Sprint("t-", number)]
		clients[number].connection.Close()
		for _, free := held.detachedSince(); !free; _, free = held.detachedSince() {
			time.Sleep(time.Millisecond)
		}
	}
	holder.begin(t, opening("more", "one"), 1)
	holder.holder.mutex.Lock()
	_, third := holder.holder.terminals["t-3"]
	_, fifth := holder.holder.terminals["t-5"]
	holder.holder.mutex.Unlock()
	if third || !fifth {
		t.Errorf("t-3: %v, t-5: %v", third, fifth)
	}
}

func TestNonsenseEndsTheConnectionAndNothingElse(t *testing.T) {
	holder := startTestHolder(t)
	good, _ := holder.begin(t, opening("main", "one"), 1)
	for _, line := range []string{"\n", "[]\n", `{"name": "../x"}` + "\n", `{"name": ""}` + "\n", strings.Repeat("x", 9000)} {
		connection, err := net.Dial("unix", holder.path)
		if err != nil {
			t.Fatal(err)
		}
		_ = connection.SetDeadline(time.Now().Add(patience))
		_, _ = connection.Write([]byte(line))
		if answer, _ := io.ReadAll(connection); !bytes.HasPrefix(answer, []byte("+e")) {
			t.Errorf("%.20q: %q", line, answer)
		}
		connection.Close()
	}
	random := rand.New(rand.NewSource(1))
	for range 50 {
		client := holder.attach(t, opening("odd", "one"))
		client.expect(frameAttached)
		noise := make([]byte, random.Intn(200))
		random.Read(noise)
		_, _ = client.connection.Write(noise)
		_ = client.connection.(*net.UnixConn).CloseWrite()
		for err := error(nil); err == nil; {
			_, _, err = readFrame(client.connection, client.buffer)
		}
	}
	good.send(frameInput, "echo well-$((1+1))\n")
	good.until("well-2")
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("i\x00\x00\x02ab"))
	f.Add([]byte("i\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		buffer := make([]byte, maxTerminalFrame)
		for reader := bytes.NewReader(sent); ; {
			kind, data, err := readFrame(reader, buffer)
			if err != nil {
				return
			}
			var again bytes.Buffer
			if writeFrame(&again, kind, data) != nil || !bytes.Contains(sent, again.Bytes()) {
				t.Fatalf("%q became %q", sent, again.Bytes())
			}
		}
	})
}

func TestOneHolderServesADirectory(t *testing.T) {
	directory, err := terminalDirectory([]string{"/proc/no-such-place", t.TempDir()}, "/home/one")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, socketName)
	if err := os.WriteFile(path, nil, 0o600); err != nil { // what a holder that was killed leaves
		t.Fatal(err)
	}
	var holders sync.WaitGroup
	for range 4 { // all but one return at once
		holders.Go(func() {
			if err := hold(directory, testProcesses); err != nil {
				t.Error(err)
			}
		})
	}
	connection, err := reachHolder(path, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
	// The last one would end after its idle time; nobody waits for it here.
}

func TestADirectoryOfSomebodyElseIsNotUsed(t *testing.T) {
	open, linked, good := t.TempDir(), t.TempDir(), t.TempDir()
	made, err := terminalDirectory([]string{open}, "/home/one")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(made, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(made, filepath.Join(linked, filepath.Base(made))); err != nil {
		t.Fatal(err)
	}
	found, err := terminalDirectory([]string{open, linked, good}, "/home/one")
	if err != nil || filepath.Dir(found) != good {
		t.Errorf("%s, %v", found, err)
	}
	if other, _ := terminalDirectory([]string{good}, "/home/two"); other == found {
		t.Error("two homes share one directory")
	}
}

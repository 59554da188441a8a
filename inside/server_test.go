package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// One for all tests: it collects the exits of every child of this process.
var testProcesses = sync.OnceValue(func() *Processes { return newProcesses(false) })

func connect(t *testing.T, opening Opening) *ssh.Client {
	t.Helper()
	opening.HostKey = make([]byte, ed25519.SeedSize)
	fromClient, clientOut, _ := os.Pipe()
	clientIn, toClient, _ := os.Pipe()
	stream := newStdio(bufio.NewReader(fromClient), fromClient, toClient)
	go func() { _ = serve(stream, opening, testProcesses()) }()
	public, _ := ssh.NewPublicKey(ed25519.NewKeyFromSeed(opening.HostKey).Public())
	config := &ssh.ClientConfig{User: "anybody", HostKeyCallback: ssh.FixedHostKey(public)}
	client := newStdio(bufio.NewReader(clientIn), clientIn, clientOut)
	connection, channels, requests, err := ssh.NewClientConn(client, "", config)
	if err != nil {
		t.Fatal(err)
	}
	if line := string(connection.ServerVersion()); line != Identification {
		t.Fatalf("identified as %q", line)
	}
	made := ssh.NewClient(connection, channels, requests)
	t.Cleanup(func() { made.Close() })
	return made
}

func run(t *testing.T, client *ssh.Client, command string) (string, string, error) {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	session.Stdout, session.Stderr = &out, &problems
	err = session.Run(command)
	return out.String(), problems.String(), err
}

func TestACommandsOutputAndExitArePassedOn(t *testing.T) {
	client := connect(t, Opening{})
	out, problems, err := run(t, client, "echo out; echo problem >&2; exit 42")
	var exit *ssh.ExitError
	if out != "out\n" || problems != "problem\n" || !errors.As(err, &exit) || exit.ExitStatus() != 42 {
		t.Errorf("%q, %q, %v", out, problems, err)
	}
	_, _, err = run(t, client, "kill -USR1 $$")
	if !errors.As(err, &exit) || exit.Signal() != "USR1" {
		t.Errorf("ended by %v", err)
	}
}

func TestASignalReachesTheProgram(t *testing.T) {
	session, err := connect(t, Opening{}).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := session.StdoutPipe()
	if err := session.Start("trap 'exit 9' TERM; echo ready; while :; do read -r line || sleep 0.05; done"); err != nil {
		t.Fatal(err)
	}
	_, _ = bufio.NewReader(out).ReadString('\n')
	_ = session.Signal(ssh.SIGTERM)
	var exit *ssh.ExitError
	if err := session.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 9 {
		t.Errorf("ended with %v", err)
	}
}

func TestForwardingLeavesTheWorkspaceNever(t *testing.T) {
	client := connect(t, Opening{})
	for _, address := range []string{"10.0.0.1:80", "169.254.169.254:80", "example.org:443"} {
		var refused *ssh.OpenChannelError
		if _, err := client.Dial("tcp", address); !errors.As(err, &refused) || refused.Reason != ssh.Prohibited {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestASharedLoopbackIsReachedAtOwnPortsOnly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, Opening{OwnListenersOnly: true})
	connection, err := client.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatalf("an own port was refused: %v", err)
	}
	connection.Close()
	listener.Close()
	_, err = client.Dial("tcp", listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "nothing of this workspace listens") {
		t.Errorf("nobody listens there: %v", err)
	}
}

func TestRemoteForwardsListenOnLoopbackWhateverIsAsked(t *testing.T) {
	client := connect(t, Opening{})
	listener, err := client.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	for _, each := range listeners() {
		if each.Port == port && each.Address != "127.0.0.1" {
			t.Errorf("listens on %s", each.Address)
		}
	}
	if !isOwnListener("127.0.0.1", port) {
		t.Error("does not listen")
	}
}

func TestWithoutAShellProgramsRunAndTheRestIsExplained(t *testing.T) {
	environment := []string{"PATH=/usr/bin:/bin"}
	words, path, err := withoutShell("true 'a b'", environment)
	if err != nil || !strings.HasSuffix(path, "/true") || words[1] != "a b" {
		t.Errorf("%q, %q, %v", words, path, err)
	}
	for command, expected := range map[string]string{
		"":             "has no shell",
		"a | b":        "cannot be run without one",
		"no-such-tool": "is not in this image",
	} {
		if _, _, err := withoutShell(command, environment); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%q: %v", command, err)
		}
	}
}

func TestVariablesArePassedOnWithinLimits(t *testing.T) {
	session := &Session{variables: map[string]string{}}
	send := func(name, value string) bool { return session.setVariable(ssh.Marshal(envRequest{name, value})) }
	if !send("LANG", "ko_KR.UTF-8") || session.variables["LANG"] != "ko_KR.UTF-8" {
		t.Error("a variable was refused")
	}
	if send("", "a") || send("A=B", "a") || send("A", "a\x00b") || send("A", strings.Repeat("a", maxVariableBytes+1)) {
		t.Error("a malformed variable was taken")
	}
}

func TestASilentClientIsGivenUp(t *testing.T) {
	fromClient, clientOut, _ := os.Pipe()
	defer clientOut.Close()
	nowhere, _ := os.Open(os.DevNull)
	stream := newStdio(bufio.NewReader(fromClient), fromClient, nowhere)
	stream.heardAt.Store(time.Now().UnixNano())
	go (&Server{}).keepAlive(stream, 10*time.Millisecond, 10*time.Millisecond)
	<-stream.closed
}

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const (
	maxVariables     = 256
	maxVariableBytes = 64 * 1024
	exitNotFound     = 127
)

// Session is one channel of type session: a shell, a command or sftp.
type Session struct {
	server    *Server
	channel   ssh.Channel
	variables map[string]string
	terminal  *Terminal
	agent     io.Closer
	started   bool

	mutex sync.Mutex
	pid   int // of the running program; 0: none
}

type execRequest struct{ Command string }
type envRequest struct{ Name, Value string }
type subsystemRequest struct{ Name string }
type signalRequest struct{ Name string }

func (s *Server) serveSession(offered ssh.NewChannel) {
	channel, requests, err := offered.Accept()
	if err != nil {
		return
	}
	session := &Session{server: s, channel: channel, variables: map[string]string{}}
	for request := range requests {
		reply(request, session.answer(request), nil)
	}
	session.close()
}

// answer handles one request. After a program was started only a resize and signals mean something.
func (s *Session) answer(request *ssh.Request) bool {
	switch request.Type {
	case "window-change":
		var size windowSize
		if ssh.Unmarshal(request.Payload, &size) != nil || s.terminal == nil {
			return false
		}
		return s.terminal.resize(size) == nil
	case "signal":
		return s.signal(request.Payload)
	}
	if s.started {
		return false
	}
	switch request.Type {
	case "env":
		return s.setVariable(request.Payload)
	case "pty-req":
		return s.openTerminal(request.Payload)
	case "auth-agent-req@openssh.com":
		return s.forwardAgent()
	case "shell":
		s.started = true
		go s.run("")
		return true
	case "exec":
		var wanted execRequest
		if ssh.Unmarshal(request.Payload, &wanted) != nil || strings.ContainsRune(wanted.Command, 0) {
			return false
		}
		s.started = true
		go s.run(wanted.Command)
		return true
	case "subsystem":
		var wanted subsystemRequest
		if ssh.Unmarshal(request.Payload, &wanted) != nil || wanted.Name != "sftp" {
			return false
		}
		s.started = true
		go s.serveFiles()
		return true
	}
	return false
}

// setVariable takes any variable: the person may set any in their own workspace. Only the amount is limited.
func (s *Session) setVariable(payload []byte) bool {
	var sent envRequest
	if ssh.Unmarshal(payload, &sent) != nil || sent.Name == "" || strings.ContainsAny(sent.Name, "=\x00") {
		return false
	}
	if strings.ContainsRune(sent.Value, 0) || len(s.variables) >= maxVariables || len(sent.Value) > maxVariableBytes {
		return false
	}
	s.variables[sent.Name] = sent.Value
	return true
}

func (s *Session) signal(payload []byte) bool {
	var wanted signalRequest
	if ssh.Unmarshal(payload, &wanted) != nil {
		return false
	}
	number, known := signalNumbers[wanted.Name]
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !known || s.pid == 0 {
		return false
	}
	s.server.processes.signalGroup(s.pid, number)
	return true
}

// run runs a shell, or a command in a shell. Where the image has no shell it runs the command's words directly.
func (s *Session) run(command string) {
	defer s.channel.Close()
	account := s.server.account
	if s.terminal != nil {
		s.variables["SSH_TTY"], s.variables["TERM"] = s.terminal.name, s.terminal.kind
	}
	program := Program{Environment: account.environment(s.variables), Directory: account.Home}
	if account.Shell != "" {
		program.Path, program.Arguments = account.shellCommand(command)
	} else {
		words, path, err := withoutShell(command, program.Environment)
		if err != nil {
			fmt.Fprintf(s.channel.Stderr(), "codehub: %v\n", err)
			s.exit(exitNotFound)
			return
		}
		program.Path, program.Arguments = path, words
	}
	if err := s.runProgram(program); err != nil {
		fmt.Fprintf(s.channel.Stderr(), "codehub: %s: %v\n", program.Path, err)
		s.exit(exitNotFound)
	}
}

func withoutShell(command string, environment []string) ([]string, string, error) {
	if command == "" {
		return nil, "", fmt.Errorf("this image has no shell (looked for %s). sftp and single programs work: "+
			"ssh NAME /path/to/program arguments", strings.Join(shells, ", "))
	}
	words, err := splitWords(command)
	if err != nil {
		return nil, "", fmt.Errorf("this image has no shell, and %q cannot be run without one: %w", command, err)
	}
	path, err := findProgram(words[0], environment)
	if err != nil {
		return nil, "", fmt.Errorf("%s is not in this image, which has no shell either", words[0])
	}
	return words, path, nil
}

func (s *Session) runProgram(program Program) error {
	if s.terminal != nil {
		return s.runOnTerminal(program)
	}
	return s.runOnPipes(program)
}

// start starts the program and closes its files here, so that reading ends when the program's side is closed.
func (s *Session) start(program Program) (<-chan syscall.WaitStatus, error) {
	pid, exited, err := s.server.processes.start(program)
	for _, file := range program.Files {
		file.Close()
	}
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	s.pid = pid
	s.mutex.Unlock()
	return exited, nil
}

func (s *Session) runOnTerminal(program Program) error {
	program.Terminal = true
	program.Files = []*os.File{s.terminal.slave, s.terminal.slave, s.terminal.slave}
	exited, err := s.start(program)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(s.terminal.master, s.channel) }()
	// The kernel hangs the terminal up when its session's leader ends: reading ends after the last output.
	copied := make(chan struct{})
	go func() {
		_, _ = io.Copy(s.channel, s.terminal.master)
		close(copied)
	}()
	status := <-exited
	<-copied
	s.report(status)
	return nil
}

func (s *Session) runOnPipes(program Program) error {
	pipes, err := openPipes()
	if err != nil {
		return err
	}
	program.Files = pipes.child
	exited, err := s.start(program)
	if err != nil {
		pipes.closeOwn()
		return err
	}
	defer pipes.closeOwn()
	go func() {
		_, _ = io.Copy(pipes.stdin, s.channel)
		pipes.stdin.Close()
	}()
	var outputs sync.WaitGroup
	for output, file := range map[io.Writer]*os.File{s.channel: pipes.stdout, s.channel.Stderr(): pipes.stderr} {
		outputs.Go(func() {
			_, _ = io.Copy(output, file)
			file.Close() // the client may have gone: whoever still writes is to learn it
		})
	}
	// Like OpenSSH: the exit is reported at once, the channel is open until everybody has closed the output.
	s.report(<-exited)
	outputs.Wait()
	_ = s.channel.CloseWrite()
	return nil
}

func (s *Session) serveFiles() {
	defer s.channel.Close()
	server, err := sftp.NewServer(newAppendingSftp(s.channel))
	if err != nil {
		s.exit(1)
		return
	}
	// Closed when the client has ended, or the connection. What it has open is closed with it.
	if err := server.Serve(); err != nil && err != io.EOF {
		s.exit(1)
		return
	}
	s.exit(0)
}

func (s *Session) report(status syscall.WaitStatus) {
	s.mutex.Lock()
	s.pid = 0
	s.mutex.Unlock()
	if status.Signaled() {
		name, known := signalNames[status.Signal()]
		if !known {
			name = fmt.Sprintf("SIG%d@codehub", status.Signal())
		}
		payload := ssh.Marshal(struct {
			Name     string
			Core     bool
			Message  string
			Language string
		}{name, status.CoreDump(), "", ""})
		_, _ = s.channel.SendRequest("exit-signal", false, payload)
		return
	}
	s.exit(status.ExitStatus())
}

func (s *Session) exit(status int) {
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

// close ends what belongs to the session alone: the client closed the channel, or the connection is gone.
func (s *Session) close() {
	if s.terminal != nil {
		s.terminal.close() // the kernel sends SIGHUP to who runs on it
	}
	if s.agent != nil {
		s.agent.Close()
	}
}

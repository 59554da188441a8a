package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// Identification is the server's first line. CodeHub sends it to a client before the workspace has woken, and takes this
// one out of the stream, so both must be the same: it is part of what the key exchange signs.
const Identification = "SSH-2.0-CodeHub_1"

const (
	openingTimeout    = 20 * time.Second
	handshakeTimeout  = 60 * time.Second
	keepAliveInterval = 25 * time.Second
	silenceLimit      = 75 * time.Second
)

// serveStdio serves one connection and returns when it has ended and what it started is gone.
func serveStdio(in *os.File, out *os.File) error {
	// Other processes of this user must not read the host key out of this one's memory. Fails on no kernel in use.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	reader := bufio.NewReaderSize(in, 64*1024)
	timer := time.AfterFunc(openingTimeout, func() {
		fmt.Fprintln(os.Stderr, "inside: nothing came on standard input")
		os.Exit(1)
	})
	opening, err := readOpening(reader)
	timer.Stop()
	if err != nil {
		return err
	}
	processes := newProcesses(opening.Keep)
	stream := newStdio(reader, in, out)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	served := make(chan error, 1)
	go func() { served <- serve(stream, opening, processes) }()
	select {
	case err = <-served:
	case <-stream.closed: // a read of standard input may block for ever: it is not waited for
	case <-end:
	}
	if !opening.Keep {
		processes.killAll()
	}
	return err
}

func serve(stream *stdio, opening Opening, processes *Processes) error {
	signer, err := opening.signer()
	if err != nil {
		return err
	}
	timer := time.AfterFunc(handshakeTimeout, func() { stream.Close() })
	connection, channels, requests, err := ssh.NewServerConn(stream, serverConfig(signer))
	timer.Stop()
	if err != nil {
		return fmt.Errorf("SSH handshake: %w", err)
	}
	server := &Server{
		connection: connection,
		opening:    opening,
		processes:  processes,
		account:    findAccount(),
		forwards:   map[string]io.Closer{},
	}
	defer server.close()
	// For sftp, whose relative paths begin there. An option of its server would make targets of links absolute.
	_ = os.Chdir(server.account.Home)
	go server.answerGlobalRequests(requests)
	go server.keepAlive(stream, keepAliveInterval, silenceLimit)
	for channel := range channels {
		go server.accept(channel)
	}
	return nil
}

// serverConfig allows what ssh-audit calls modern, and nothing else.
//
// There is no authentication: the stream begins at CodeHub, which has authenticated the person and decided that this
// workspace is theirs, and nobody else can write to it.
func serverConfig(signer ssh.Signer) *ssh.ServerConfig {
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: Identification}
	config.KeyExchanges = []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519}
	config.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305}
	config.MACs = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM}
	config.AddHostKey(signer)
	return config
}

// Server is one connection with everything that was opened on it.
type Server struct {
	connection *ssh.ServerConn
	opening    Opening
	processes  *Processes
	account    Account

	mutex    sync.Mutex
	forwards map[string]io.Closer // listeners of -R, by what the client named
	closed   bool
}

func (s *Server) accept(channel ssh.NewChannel) {
	switch channel.ChannelType() {
	case "session":
		s.serveSession(channel)
	case "direct-tcpip":
		s.forwardTCP(channel)
	case "direct-streamlocal@openssh.com":
		s.forwardSocket(channel)
	default:
		_ = channel.Reject(ssh.UnknownChannelType, "this workspace does not know "+channel.ChannelType())
	}
}

func (s *Server) answerGlobalRequests(requests <-chan *ssh.Request) {
	for request := range requests {
		switch request.Type {
		case "tcpip-forward":
			s.listenTCP(request)
		case "cancel-tcpip-forward":
			s.stopListeningTCP(request)
		case "streamlocal-forward@openssh.com":
			s.listenSocket(request)
		case "cancel-streamlocal-forward@openssh.com":
			s.stopListeningSocket(request)
		default: // keepalive@openssh.com among them: any answer is an answer
			reply(request, false, nil)
		}
	}
}

// keepAlive asks for an answer after an interval of silence, and ends the connection when nothing came for limit. An engine or a CodeHub that was killed may leave the
// other end of the stream open for ever.
func (s *Server) keepAlive(stream *stdio, interval, limit time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for range ticker.C {
		silence := time.Since(time.Unix(0, stream.heardAt.Load()))
		switch {
		case silence >= limit:
			stream.Close()
			return
		case silence >= interval:
			go func() { _, _, _ = s.connection.SendRequest("keepalive@openssh.com", true, nil) }()
		}
	}
}

func (s *Server) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
	for _, listener := range s.forwards {
		listener.Close()
	}
}

func reply(request *ssh.Request, ok bool, payload []byte) {
	if request.WantReply {
		_ = request.Reply(ok, payload)
	}
}

// stdio is standard input and output as one connection.
type stdio struct {
	noDeadlines
	reader  *bufio.Reader
	in, out *os.File
	heardAt atomic.Int64
	closed  chan struct{}
	once    sync.Once
}

func newStdio(reader *bufio.Reader, in, out *os.File) *stdio {
	return &stdio{reader: reader, in: in, out: out, closed: make(chan struct{})}
}

func (s *stdio) Read(buffer []byte) (int, error) {
	count, err := s.reader.Read(buffer)
	s.heardAt.Store(time.Now().UnixNano())
	return count, err
}

func (s *stdio) Write(data []byte) (int, error) { return s.out.Write(data) }

func (s *stdio) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.out.Close()
		s.in.Close()
	})
	return nil
}

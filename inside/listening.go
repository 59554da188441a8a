package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

const maxForwards = 64

type tcpListen struct {
	Host string
	Port uint32
}

type socketListen struct{ Path string }

// listenTCP listens for ssh -R, on the workspace's loopback whatever address the client named: the network a workspace
// is in belongs to others, too.
func (s *Server) listenTCP(request *ssh.Request) {
	var wanted tcpListen
	if ssh.Unmarshal(request.Payload, &wanted) != nil || wanted.Port > 65535 {
		reply(request, false, nil)
		return
	}
	host := "127.0.0.1"
	if address := net.ParseIP(wanted.Host); address != nil && address.IsLoopback() {
		host = address.String()
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(wanted.Port))))
	if err != nil {
		reply(request, false, nil)
		return
	}
	port := uint32(listener.Addr().(*net.TCPAddr).Port)
	if !s.addForward(tcpKey(wanted.Host, port), listener) {
		reply(request, false, nil)
		return
	}
	if wanted.Port == 0 {
		reply(request, true, ssh.Marshal(struct{ Port uint32 }{port}))
	} else {
		reply(request, true, nil)
	}
	go s.passOn(listener, "forwarded-tcpip", func(from net.Conn) []byte {
		origin, _ := from.RemoteAddr().(*net.TCPAddr)
		return ssh.Marshal(tcpTarget{wanted.Host, port, origin.IP.String(), uint32(origin.Port)})
	})
}

func (s *Server) stopListeningTCP(request *ssh.Request) {
	var wanted tcpListen
	valid := ssh.Unmarshal(request.Payload, &wanted) == nil
	reply(request, valid && s.removeForward(tcpKey(wanted.Host, wanted.Port)), nil)
}

// listenSocket listens on a Unix socket. Like OpenSSH it does not replace a file that is there.
func (s *Server) listenSocket(request *ssh.Request) {
	var wanted socketListen
	if ssh.Unmarshal(request.Payload, &wanted) != nil || wanted.Path == "" || strings.ContainsRune(wanted.Path, 0) {
		reply(request, false, nil)
		return
	}
	path := s.account.inHome(wanted.Path)
	listener, err := listenUnix(path)
	if err != nil || !s.addForward("unix "+path, listener) {
		reply(request, false, nil)
		return
	}
	reply(request, true, nil)
	go s.passOn(listener, "forwarded-streamlocal@openssh.com", func(net.Conn) []byte {
		return ssh.Marshal(struct{ Path, Reserved string }{wanted.Path, ""})
	})
}

func (s *Server) stopListeningSocket(request *ssh.Request) {
	var wanted socketListen
	valid := ssh.Unmarshal(request.Payload, &wanted) == nil
	reply(request, valid && s.removeForward("unix "+s.account.inHome(wanted.Path)), nil)
}

// forwardAgent makes a socket for SSH_AUTH_SOCK that only this user reaches, and that leads to the client's agent.
func (s *Session) forwardAgent() bool {
	if s.agent != nil {
		return false
	}
	directory, err := os.MkdirTemp("", "codehub-agent-")
	if err != nil {
		return false
	}
	path := filepath.Join(directory, "agent")
	listener, err := listenUnix(path)
	if err != nil {
		os.Remove(directory)
		return false
	}
	s.agent = &agentSocket{listener, directory}
	s.variables["SSH_AUTH_SOCK"] = path
	go s.server.passOn(listener, "auth-agent@openssh.com", func(net.Conn) []byte { return nil })
	return true
}

type agentSocket struct {
	net.Listener
	directory string
}

func (a *agentSocket) Close() error {
	err := a.Listener.Close()
	os.Remove(a.directory)
	return err
}

// passOn opens a channel to the client for each connection.
func (s *Server) passOn(listener net.Listener, kind string, details func(net.Conn) []byte) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			channel, requests, err := s.connection.OpenChannel(kind, details(connection))
			if err != nil {
				connection.Close()
				return
			}
			go ssh.DiscardRequests(requests)
			join(channel, connection)
		}()
	}
}

func (s *Server) addForward(key string, listener net.Listener) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, taken := s.forwards[key]; taken || s.closed || len(s.forwards) >= maxForwards {
		listener.Close()
		return false
	}
	s.forwards[key] = listener
	return true
}

func (s *Server) removeForward(key string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	listener, known := s.forwards[key]
	if known {
		delete(s.forwards, key)
		listener.Close()
	}
	return known
}

func tcpKey(host string, port uint32) string {
	return "tcp " + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// listenUnix listens on a socket that only this user may open.
func listenUnix(path string) (net.Listener, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

func (a Account) inHome(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.Home, path)
}

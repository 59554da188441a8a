package main

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const dialTimeout = 10 * time.Second

type tcpTarget struct {
	Host       string
	Port       uint32
	OriginHost string
	OriginPort uint32
}

type socketTarget struct {
	Path       string
	Reserved   string
	OriginPort uint32
}

// loopbackHosts returns where to connect for a name the client asked for; nothing: it is not the workspace itself. Names
// are never resolved: what localhost is must not depend on an image's files.
func loopbackHosts(name string) []string {
	switch strings.ToLower(name) {
	case "localhost", "":
		return []string{"127.0.0.1", "::1"}
	}
	if address := net.ParseIP(name); address != nil && address.IsLoopback() {
		return []string{address.String()}
	}
	return nil
}

// forwardTCP connects to a port of this workspace (ssh -L, -D, -W).
func (s *Server) forwardTCP(offered ssh.NewChannel) {
	var target tcpTarget
	if ssh.Unmarshal(offered.ExtraData(), &target) != nil || target.Port == 0 || target.Port > 65535 {
		_ = offered.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	hosts := loopbackHosts(target.Host)
	if len(hosts) == 0 {
		_ = offered.Reject(ssh.Prohibited, "CodeHub forwards to localhost of the workspace only")
		return
	}
	port := int(target.Port)
	failure := "nothing of this workspace listens on port " + strconv.Itoa(port)
	for _, host := range hosts {
		if s.opening.OwnListenersOnly && !isOwnListener(host, port) {
			continue
		}
		connection, err := dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			acceptAndJoin(offered, connection)
			return
		}
		failure = err.Error()
	}
	_ = offered.Reject(ssh.ConnectionFailed, failure)
}

// forwardSocket connects to a Unix socket of this workspace.
func (s *Server) forwardSocket(offered ssh.NewChannel) {
	var target socketTarget
	if ssh.Unmarshal(offered.ExtraData(), &target) != nil || target.Path == "" || strings.ContainsRune(target.Path, 0) {
		_ = offered.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	connection, err := dial("unix", s.account.inHome(target.Path))
	if err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	acceptAndJoin(offered, connection)
}

func dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

func acceptAndJoin(offered ssh.NewChannel, connection net.Conn) {
	channel, requests, err := offered.Accept()
	if err != nil {
		connection.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	join(channel, connection)
}

// join copies both ways until both have ended. The end of one direction is passed on alone: protocols rely on it.
func join(channel ssh.Channel, connection net.Conn) {
	var directions sync.WaitGroup
	directions.Go(func() {
		_, _ = io.Copy(connection, channel)
		if half, ok := connection.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	directions.Go(func() {
		_, _ = io.Copy(channel, connection)
		_ = channel.CloseWrite()
	})
	directions.Wait()
	channel.Close()
	connection.Close()
}

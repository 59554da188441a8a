package main

import (
	"net"
	"os"
	"strings"
	"testing"
)

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 100 0 0 10 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
   3: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4714 1
   4: broken
`

func TestListenersAreReadFromTheKernelsTable(t *testing.T) {
	found := parseListeners(strings.NewReader(table))
	expected := []Listener{
		{Address: "127.0.0.1", Port: 8080, inode: "4711"},
		{Address: "0.0.0.0", Port: 22, inode: "4713"},
		{Address: "::1", Port: 3000, inode: "4714"},
	}
	if len(found) != len(expected) {
		t.Fatalf("found %+v", found)
	}
	for index, each := range expected {
		if found[index] != each {
			t.Errorf("found %+v instead of %+v", found[index], each)
		}
	}
}

func TestAListenerOfThisProcessIsItsOwn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if !isOwnListener("127.0.0.1", port) {
		t.Error("an own listener was not recognised")
	}
	if socketOwners()[inodeOf(port)] != os.Getpid() {
		t.Error("its process was not found")
	}
	listener.Close()
	if isOwnListener("127.0.0.1", port) {
		t.Error("nobody listens there any more")
	}
}

func TestOnlyOwnListenersAreNamedWhereTheNetworkIsShared(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	found := false
	for _, each := range namedListeners(true) {
		if each.PID == 0 {
			t.Errorf("%+v is nobody's", each)
		}
		found = found || each.Port == port && each.PID == os.Getpid()
	}
	if !found {
		t.Error("an own listener is missing")
	}
}

func inodeOf(port int) string {
	for _, each := range listeners() {
		if each.Port == port {
			return each.inode
		}
	}
	return ""
}

package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const stateListen = "0A"

// Listener is one listening TCP socket. Its process is named where this user may see it.
type Listener struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
	Process string `json:"process,omitempty"`
	PID     int    `json:"pid,omitempty"`

	inode string
}

// printPorts prints all listeners as one JSON array, by port.
func printPorts(out io.Writer) error {
	return json.NewEncoder(out).Encode(namedListeners(false))
}

// namedListeners returns listeners by port, with their processes; only those of processes seen from here, if the network
// is the machine's and the others' are nobody's business.
func namedListeners(ownOnly bool) []Listener {
	found := listeners()
	owners := socketOwners()
	for index, each := range found {
		if pid, known := owners[each.inode]; known {
			found[index].PID, found[index].Process = pid, processName(pid)
		}
	}
	if ownOnly {
		found = slices.DeleteFunc(found, func(each Listener) bool { return each.PID == 0 })
	}
	return found
}

// isOwnListener says whether all who would get a connection to this address are processes seen from here. Where the
// network is the machine's, the sandbox's processes are the only ones.
func isOwnListener(host string, port int) bool {
	owners := socketOwners()
	any := false
	for _, each := range listeners() {
		if each.Port != port || !answersFor(each.Address, host) {
			continue
		}
		if _, own := owners[each.inode]; !own {
			return false
		}
		any = true
	}
	return any
}

// answersFor says whether a socket bound to one address can get a connection to another.
func answersFor(bound, asked string) bool {
	address := net.ParseIP(bound)
	return address == nil || address.IsUnspecified() || address.Equal(net.ParseIP(asked))
}

func listeners() []Listener {
	found := []Listener{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(path)
		if err != nil {
			continue // a kernel without IPv6
		}
		found = append(found, parseListeners(file)...)
		file.Close()
	}
	slices.SortStableFunc(found, func(a, b Listener) int { return a.Port - b.Port })
	return found
}

func parseListeners(table io.Reader) []Listener {
	var found []Listener
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		rawAddress, rawPort, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(rawPort, 16, 16)
		address, addressErr := parseAddress(rawAddress)
		if err != nil || addressErr != nil {
			continue
		}
		found = append(found, Listener{Address: address.String(), Port: int(port), inode: fields[9]})
	}
	return found
}

// parseAddress reads the kernel's form: words of 32 bits, each with its bytes reversed on the machines we build for.
func parseAddress(text string) (net.IP, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return nil, net.InvalidAddrError(text)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	return net.IP(raw), nil
}

// socketOwners maps inodes of sockets to a process, for all processes whose descriptors may be read.
func socketOwners() map[string]int {
	owners := map[string]int{}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		if inode, isSocket := strings.CutPrefix(target, "socket:["); isSocket {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			owners[strings.TrimSuffix(inode, "]")] = pid
		}
	}
	return owners
}

func processName(pid int) string {
	name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	return strings.TrimSpace(string(name))
}

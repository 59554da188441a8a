package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

func TestReadLaunch(t *testing.T) {
	launch, err := readLaunch([]string{"--cwd", "/tmp", "--env", "A=b=c", "--env", "EMPTY=", "--", "--env", "x"})
	wanted := Launch{"/tmp", []string{"A=b=c", "EMPTY="}, []string{"--env", "x"}}
	if err != nil || !reflect.DeepEqual(launch, wanted) {
		t.Errorf("%+v, %v", launch, err)
	}
	for _, wrong := range [][]string{{}, {"--"}, {"true"}, {"--env", "=x", "--", "true"}, {"--cwd"}, {"--other", "x", "--", "true"}} {
		if _, err := readLaunch(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

func TestTheLastEntryOfAnEnvironmentCounts(t *testing.T) {
	merged := mergeEnvironment([]string{"PATH=/own", "A=1"}, []string{"B=2", "A=3"})
	if !reflect.DeepEqual(merged, []string{"PATH=/own", "A=3", "B=2"}) {
		t.Error(merged)
	}
	if merged = mergeEnvironment(nil, nil); !reflect.DeepEqual(merged, []string{defaultPath}) {
		t.Error(merged)
	}
}

func TestExitCodesOfPrograms(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, wanted := range map[string]int{"sh": 0, "no-such-program": exitNotFound, plain: exitNotExecutable} {
		if _, code := locate(name, []string{"PATH=/usr/bin:/bin"}); code != wanted {
			t.Errorf("%s: %d", name, code)
		}
	}
}

func TestKillFindsAllThatIsMarkedAndWhatIsBelow(t *testing.T) {
	entry := "INSIDE_TEST_MARK=" + filepath.Base(t.TempDir()) + t.Name()
	command := exec.Command("sh", "-c", "env -i sleep 1000 & echo ready; wait")
	command.Env = append(os.Environ(), entry)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if found := marked(entry); len(found) < 2 {
		t.Errorf("found %v", found)
	}
	if err := signalMarked("KILL", entry); err != nil {
		t.Error(err)
	}
	if found := marked(entry); len(found) != 0 {
		t.Errorf("%v are left", found)
	}
	_ = command.Wait()
	if signalMarked("TERM", entry) == nil {
		t.Error("an unknown signal was taken")
	}
}

func TestInstallReplacesWhatIsThere(t *testing.T) {
	directory := t.TempDir()
	program := filepath.Join(directory, "program")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(program, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := install(program, directory); err != nil {
			t.Fatal(err)
		}
		found, err := os.ReadFile(filepath.Join(directory, "inside"))
		if err != nil || string(found) != content {
			t.Errorf("%q, %v", found, err)
		}
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 2 {
		t.Errorf("%d files", len(entries))
	}
}

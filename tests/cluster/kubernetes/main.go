// One program that is every part of a Kubernetes cluster, chosen by its first argument.
//
// One binary instead of six: the parts share nearly all of their code, so it links once and is a quarter of the size.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes etcd|apiserver|controllers|scheduler|kubelet|proxy|kubectl [flags]")
		os.Exit(2)
	}
	part := os.Args[1]
	os.Args = append([]string{filepath.Base(part)}, os.Args[2:]...)
	if part == "etcd" {
		if err := runEtcd(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	command := commandOf(part)
	if command == nil {
		fmt.Fprintf(os.Stderr, "no part of a cluster is named %q\n", part)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

func commandOf(part string) *cobra.Command {
	switch part {
	case "apiserver":
		return apiserver.NewAPIServerCommand()
	case "controllers":
		return controllers.NewControllerManagerCommand()
	case "scheduler":
		return scheduler.NewSchedulerCommand()
	case "proxy":
		return proxy.NewProxyCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand()
	}
	return nil
}

// The network policy agent of a node: judges the first packet of each connection by the network policies.
//
// A module of its own, because it asks for newer versions of some libraries than Kubernetes is made with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/dataplane"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run judges packets until it is told to stop.
//
// The kernel hands it packets through a queue. It makes rules that fill the queue itself where nftables can; the node
// has an iptables rule that does it as well, because many kernels are built without nftables' queue.
func run(arguments []string) error {
	flags := flag.NewFlagSet("policies", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	node := flags.String("node", "", "name of this node")
	queue := flags.Int("queue", 100, "number of the packet queue")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	namespaces, pods := factory.Core().V1().Namespaces(), factory.Core().V1().Pods()
	addresses, err := podinfo.NewInformerResolver(pods.Informer())
	if err != nil {
		return err
	}
	known := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{addresses})
	standard := networkpolicy.NewStandardNetworkPolicy(
		*node, namespaces, pods, factory.Networking().V1().NetworkPolicies())
	factory.Start(ctx.Done())
	engine := networkpolicy.NewPolicyEngine(known, []api.PolicyEvaluator{standard})
	controller, err := dataplane.NewController(engine, dataplane.Config{QueueID: *queue})
	if err != nil {
		return err
	}
	return controller.Run(ctx)
}

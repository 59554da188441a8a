package main

import (
	"errors"
	"flag"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd serves one etcd member until it is told to stop.
//
// Without -sync a write is acknowledged before it is on disk: the process may be killed, the machine may not.
func runEtcd(arguments []string) error {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	directory := flags.String("data", "", "directory of the data")
	client := flags.String("client", "", "URL that clients use")
	peer := flags.String("peer", "", "URL that members use")
	certificate := flags.String("certificate", "", "server certificate")
	key := flags.String("key", "", "its key")
	authority := flags.String("authority", "", "certificate authority of clients")
	sync := flags.Bool("sync", false, "write to disk before answering")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = *directory
	config.LogLevel = "warn"
	config.WarningUnaryRequestDuration = time.Second
	config.UnsafeNoFsync = !*sync
	config.AutoCompactionMode = "periodic"
	config.AutoCompactionRetention = "5m"
	config.ClientTLSInfo.CertFile = *certificate
	config.ClientTLSInfo.KeyFile = *key
	config.ClientTLSInfo.TrustedCAFile = *authority
	config.ClientTLSInfo.ClientCertAuth = *authority != ""
	clientURL, err := url.Parse(*client)
	if err != nil {
		return err
	}
	peerURL, err := url.Parse(*peer)
	if err != nil {
		return err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	case <-stop:
		server.Close()
		return nil
	case err := <-server.Err():
		return err
	}
}

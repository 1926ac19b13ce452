// Write a record with franz-go and read it back. Usage: franz_secured JSON, see test_foreign_clients.arguments.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type arguments struct {
	Servers, Topic, User, Password string
	Ca, Client, Mechanism          *string
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var asked arguments
	check(json.Unmarshal([]byte(os.Args[1]), &asked))
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.Servers),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if asked.Ca != nil {
		options = append(options, kgo.DialTLSConfig(tlsConfig(asked)))
	}
	if asked.Mechanism != nil {
		user := scram.Auth{User: asked.User, Pass: asked.Password}
		switch *asked.Mechanism {
		case "PLAIN":
			options = append(options, kgo.SASL(plain.Auth{User: asked.User, Pass: asked.Password}.AsMechanism()))
		case "SCRAM-SHA-256":
			options = append(options, kgo.SASL(user.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			options = append(options, kgo.SASL(user.AsSha512Mechanism()))
		}
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	record := &kgo.Record{Topic: asked.Topic, Value: []byte("hello")}
	check(client.ProduceSync(ctx, record).FirstErr())
	fetches := client.PollRecords(ctx, 1)
	check(fetches.Err())
	printed, err := json.Marshal(string(fetches.Records()[0].Value))
	check(err)
	fmt.Println(string(printed))
}

func tlsConfig(asked arguments) *tls.Config {
	pem, err := os.ReadFile(*asked.Ca)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if asked.Client != nil {
		own, err := tls.LoadX509KeyPair(*asked.Client, *asked.Client)
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

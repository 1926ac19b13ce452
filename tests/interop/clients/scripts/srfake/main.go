// An in-memory schema registry of franz-go's test package. Usage: srfake HOST:PORT; it prints its address.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, srfake.NewRegistry().Handler()))
}

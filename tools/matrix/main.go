package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	folder := flag.String("servers", "", "fetch into this `folder` what is not there yet")
	short := flag.Bool("short", false, "what the corners need alone")
	flag.Parse()
	if *folder == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: matrix -servers FOLDER [-short]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := servers(*folder).fetch(ctx, chosen(*short))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func chosen(short bool) []cell {
	if short {
		return corners()
	}
	return cells()
}

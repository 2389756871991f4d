package main

import (
	"log"
	"os"
)

func Example() {
	folder, err := os.MkdirTemp("", "limits")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := os.Chdir(folder); err != nil {
		log.Print(err)
	}
	main()
	if err := os.Chdir(os.TempDir()); err != nil { // so that the folder can be removed on Windows
		log.Print(err)
	}
	// Output:
	// call 1: admitted, left rph=2 tph=1120
	// call 2: admitted, left rph=1 tph=740
	// call 3: admitted, left rph=0 tph=360
	// call 4: refused, retry in 20m0s
}

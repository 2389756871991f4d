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
	// call 1: admitted, used rph=1 tph=380
	// call 2: admitted, used rph=1 tph=380
	// call 3: admitted, used rph=1 tph=380
	// call 4: refused, retry in 20m0s
}

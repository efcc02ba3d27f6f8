// Package parallel lets a package run more tests at a time than there are cores.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// perCore is how many tests run at a time for each core. Backend tests wait for disks, servers and
// due times most of the time.
const perCore = 4

// Raise sets how many tests run at a time, unless the command line says so. TestMain calls
// it before it runs the tests.
func Raise() {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(perCore*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // the flag is defined by package testing
	}
}

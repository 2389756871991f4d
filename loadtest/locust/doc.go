// Package locust runs the users of a load test as a worker of Locust.
//
// Locust's master and its web page decide how many users run, and add up the
// statistics of all workers. [Work] connects to such a master, starts and stops
// users through a [Swarm], and reports. [File] writes the Python file that the
// master loads.
//
// The protocol has the version of Locust that [Version] names: ZeroMQ, a ROUTER
// at the master and a DEALER at each worker, and MessagePack triples of type,
// data and worker.
package locust

// Version is the version of Locust that workers announce. A master of another
// version only warns.
const Version = "2.47.0"

// DefaultPort is the port of a master where workers connect.
const DefaultPort = "5557"

package loadtest

// What tests of the program need of this package.
var (
	ClassNames        = classNames
	FindPort          = findPort
	ReadOrchestration = readOrchestration
)

// AnyPort makes FindPort choose a port.
const AnyPort = anyPort

// RunJSON is the output of a run as JSON.
type RunJSON = loadRunJSON

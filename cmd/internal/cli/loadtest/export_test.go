package loadtest

// What tests of the program need of this package.
var (
	ClassNames        = classNames
	FindPort          = findPort
	ReadOrchestration = readOrchestration
)

// AnyPort is the port of which FindPort chooses any.
const AnyPort = anyPort

// RunJSON is the output of a run as JSON.
type RunJSON = loadRunJSON

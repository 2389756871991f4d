package cli

// What tests of the whole tree need besides the exported names.
var (
	NewProgram   = newProgram
	Constructors = constructors
	VersionOf    = versionOf
)

package dynamo

// ConnectAt is Connect on a machine with the given clock.
var ConnectAt = connect

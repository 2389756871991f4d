package limiter

// Names of the usual limits. Any other valid name will do as well.
const (
	RPS = "rps" // requests per second
	RPM = "rpm" // requests per minute
	RPH = "rph" // requests per hour
	RPD = "rpd" // requests per day
	TPM = "tpm" // tokens per minute
	TPH = "tph" // tokens per hour
	TPD = "tpd" // tokens per day
)

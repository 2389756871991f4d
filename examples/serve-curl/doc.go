// Package servecurl holds a shell script that limits with zae-limiter serve and
// curl.
package servecurl

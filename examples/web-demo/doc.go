// Package webdemo holds a compose file that runs the web demo on DynamoDB Local.
package webdemo

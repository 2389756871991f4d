package fakeaws

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serveFunction answers Lambda.
func (c *Cloud) serveFunction(r *Request) *Reply {
	if r.Op == "ListEventSourceMappings" {
		return &Reply{200, nil, []byte(`{"EventSourceMappings":[` + c.Mappings + `]}`)}
	}
	found, ok := c.Functions[r.Key]
	if !ok {
		return ErrorReply(r, 404, "ResourceNotFoundException", "Function not found: "+r.Key)
	}
	return &Reply{200, nil, []byte(found)}
}

// serveQueue answers SQS.
func (c *Cloud) serveQueue(r *Request) *Reply {
	var in struct{ QueueUrl string }
	if err := json.Unmarshal(r.Body, &in); err != nil || !strings.HasSuffix(in.QueueUrl, "-aggregator-dlq") {
		return ErrorReply(r, 400, "QueueDoesNotExist", in.QueueUrl)
	}
	return &Reply{200, nil, []byte(`{"Attributes":{"ApproximateNumberOfMessages":"` + c.Messages + `"}}`)}
}

// Alarm is a CloudWatch alarm.
type Alarm struct{ Name, State, Reason string }

// serveAlarms answers CloudWatch.
func (c *Cloud) serveAlarms(r *Request) *Reply {
	asked := map[string]bool{}
	for i := 1; r.Form.Has(fmt.Sprintf("AlarmNames.member.%d", i)); i++ {
		asked[r.Form.Get(fmt.Sprintf("AlarmNames.member.%d", i))] = true
	}

	text := ""
	for _, a := range c.Alarms {
		if asked[a.Name] {
			text += fmt.Sprintf("<member><AlarmName>%s</AlarmName><StateValue>%s</StateValue>"+
				"<StateReason>%s</StateReason></member>", escapeXML(a.Name), a.State, escapeXML(a.Reason))
		}
	}

	return xmlResult(r.Op, "<MetricAlarms>"+text+"</MetricAlarms>")
}

// FunctionZip writes a package for a Lambda function and returns its path. Its
// program has a valid header for machine and then more, and cannot run.
func FunctionZip(tb testing.TB, machine elf.Machine, more ...byte) string {
	tb.Helper()

	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}

	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	file := &zip.FileHeader{Name: "bootstrap"}
	file.SetMode(0o755)

	entry, err := w.CreateHeader(file)
	check(err)
	_, err = entry.Write(executable(tb, machine, more))
	check(err)

	check(w.Close())

	path := filepath.Join(tb.TempDir(), "function.zip")
	check(os.WriteFile(path, buf.Bytes(), 0o600))

	return path
}

// Program writes a program like that of FunctionZip and returns its path.
func Program(tb testing.TB, machine elf.Machine, more ...byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "program")
	if err := os.WriteFile(path, executable(tb, machine, more), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// executable returns a valid header for machine and then more.
func executable(tb testing.TB, machine elf.Machine, more []byte) []byte {
	tb.Helper()

	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Phoff: 64,
	}

	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] =
		byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1

	var content bytes.Buffer
	if err := binary.Write(&content, binary.LittleEndian, header); err != nil {
		tb.Fatal(err)
	}

	content.Write(more)
	return content.Bytes()
}

package azfake

import (
	"encoding/xml"
	"net/http"
	"strings"
)

// reply is an answer before it meets a socket or a transporter: immutable
// chunks for a body, so that content is never copied on its way out.
type reply struct {
	status int
	header http.Header
	body   content
	// cut, when not negative, is the number of body bytes that arrive before
	// the connection breaks.
	cut int64
}

func answer(status int) *reply {
	return &reply{status: status, header: http.Header{}, cut: -1}
}

func (r *reply) set(name, value string) *reply {
	r.header.Set(name, value)
	return r
}

func (r *reply) xml(body string) *reply {
	r.header.Set("Content-Type", "application/xml")
	r.body = contentOf([]byte(`<?xml version="1.0" encoding="utf-8"?>` + body))
	return r
}

// refusal is an error answer: "Status and error codes", REST reference.
type refusal struct {
	status        int
	code, message string
}

func refuse(status int, code, message string) *refusal {
	return &refusal{status, code, message}
}

func (f *refusal) reply() *reply {
	r := answer(f.status).set("x-ms-error-code", f.code)
	if f.status == http.StatusNotModified {
		return r
	}
	return r.xml("<Error><Code>" + f.code + "</Code><Message>" + escapeXML(f.message) + "</Message></Error>")
}

func escapeXML(s string) string {
	var b strings.Builder
	// A strings.Builder never fails.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

func errContainerNotFound() *refusal {
	return refuse(http.StatusNotFound, "ContainerNotFound", "The specified container does not exist.")
}

func errBlobNotFound() *refusal {
	return refuse(http.StatusNotFound, "BlobNotFound", "The specified blob does not exist.")
}

func errConditionNotMet() *refusal {
	return refuse(http.StatusPreconditionFailed, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
}

func errHeader(name, why string) *refusal {
	return refuse(http.StatusBadRequest, "InvalidHeaderValue", "The value of the header "+name+" is invalid: "+why)
}

func errQuery(name, why string) *refusal {
	return refuse(http.StatusBadRequest, "InvalidQueryParameterValue", "The value of the query parameter "+name+" is invalid: "+why)
}

func errXML(why string) *refusal {
	return refuse(http.StatusBadRequest, "InvalidXmlDocument", "The request body is not a valid document: "+why)
}

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func formatTime(seconds, nanos int64) string {
	at := time.Unix(seconds, nanos)
	return encode(metav1.NewTime(at)) + encode(metav1.NewMicroTime(at))
}

// parseTime parses a text as a Time and as a MicroTime. The error messages are not compared.
func parseTime(text string) string {
	encoded := []byte(encode(text))
	var at metav1.Time
	var micro metav1.MicroTime
	return formatParsedTime(json.Unmarshal(encoded, &at), &at.Time) + " " + formatParsedTime(json.Unmarshal(encoded, &micro), &micro.Time)
}

func formatParsedTime(err error, at *time.Time) string {
	if err != nil {
		return "invalid"
	}
	return fmt.Sprintf("%d.%d", at.Unix(), at.Nanosecond())
}

// formatFloat formats a float as an error message does, and as JSON in both sizes.
func formatFloat(value float64) string {
	inError := field.Invalid(field.NewPath("x"), value, "").Error()
	single := float32(value)
	return fmt.Sprintf("%s %s %s", inError, encodeFinite(value, value), encodeFinite(single, float64(single)))
}

func encodeFinite(encoded any, value float64) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "null"
	}
	return encode(encoded)
}

// computeQuantity returns a quantity, the quantity rounded up to thousandths, the order of it and another one, their sum
// and their difference.
func computeQuantity(q *oracleRequest) oracleResponse {
	left, err := resource.ParseQuantity(q.Input)
	if err != nil {
		return oracleResponse{Error: errorText(err)}
	}
	right, err := resource.ParseQuantity(q.Values[0])
	if err != nil {
		return oracleResponse{Error: errorText(err)}
	}
	rounded, sum, difference := left.DeepCopy(), left.DeepCopy(), left.DeepCopy()
	rounded.RoundUp(resource.Milli)
	sum.Add(right)
	difference.Sub(right)
	return oracleResponse{Output: fmt.Sprintf("%s %s %d %s %s", left.String(), rounded.String(), left.Cmp(right), sum.String(), difference.String())}
}

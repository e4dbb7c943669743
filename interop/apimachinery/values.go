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

func printTime(seconds, nanos int64) string {
	at := time.Unix(seconds, nanos)
	return encode(metav1.NewTime(at)) + encode(metav1.NewMicroTime(at))
}

// Whether and how a text is read, first as a Time and then as a MicroTime. Why it is refused is Go's business.
func readTime(text string) string {
	encoded := []byte(encode(text))
	var at metav1.Time
	var micro metav1.MicroTime
	return instant(json.Unmarshal(encoded, &at), &at.Time) + " " + instant(json.Unmarshal(encoded, &micro), &micro.Time)
}

func instant(err error, at *time.Time) string {
	if err != nil {
		return "refused"
	}
	return fmt.Sprintf("%d.%d", at.Unix(), at.Nanosecond())
}

// A float as an error shows it, and as JSON in both sizes.
func printFloat(value float64) string {
	shown := field.Invalid(field.NewPath("x"), value, "").Error()
	single := float32(value)
	return fmt.Sprintf("%s %s %s", shown, encodeFinite(value, value), encodeFinite(single, float64(single)))
}

func encodeFinite(encoded any, value float64) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "null"
	}
	return encode(encoded)
}

// A quantity as it is printed, rounded up to thousandths, compared with another one, and their sum and difference.
func askQuantity(q *question) answer {
	left, err := resource.ParseQuantity(q.Input)
	if err != nil {
		return answer{Error: text(err)}
	}
	right, err := resource.ParseQuantity(q.Values[0])
	if err != nil {
		return answer{Error: text(err)}
	}
	rounded, sum, difference := left.DeepCopy(), left.DeepCopy(), left.DeepCopy()
	rounded.RoundUp(resource.Milli)
	sum.Add(right)
	difference.Sub(right)
	return answer{Output: fmt.Sprintf("%s %s %d %s %s", left.String(), rounded.String(), left.Cmp(right), sum.String(), difference.String())}
}

// Reads metrics from standard input with the parser of a Prometheus server, and writes what it found as one JSON
// object: the families with their series, and what the linter of Prometheus finds wrong with them. The argument is the
// content type of the response that contained the metrics.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

type family struct {
	Name   string           `json:"name"`
	Type   model.MetricType `json:"type"`
	Help   string           `json:"help"`
	Series []series         `json:"series"`
}

// series has the name of its metric among the labels. The value is a string, because JSON has no infinity.
type series struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"`
}

type report struct {
	Families []*family          `json:"families"`
	Problems []promlint.Problem `json:"problems"`
}

func main() {
	log.SetFlags(0)
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	families, err := parse(text, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(metricFamilies(families)).Lint()
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report{families, problems}); err != nil {
		log.Fatal(err)
	}
}

func parse(text []byte, contentType string) ([]*family, error) {
	parser, err := textparse.New(text, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	var families []*family
	// The help of a family comes before its type or after it.
	current := func(name string) *family {
		if len(families) == 0 || families[len(families)-1].Name != name {
			families = append(families, &family{Name: name})
		}
		return families[len(families)-1]
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return families, nil
		}
		if err != nil {
			return nil, err
		}
		switch entry {
		case textparse.EntryHelp:
			name, help := parser.Help()
			current(string(name)).Help = string(help)
		case textparse.EntryType:
			name, metricType := parser.Type()
			current(string(name)).Type = metricType
		case textparse.EntrySeries:
			line, _, value := parser.Series()
			if len(families) == 0 {
				return nil, fmt.Errorf("series without a family: %s", line)
			}
			var found labels.Labels
			parser.Labels(&found)
			of := families[len(families)-1]
			of.Series = append(of.Series, series{found.Map(), fmt.Sprint(value)})
		}
	}
}

// metricFamilies returns what the linter reads: it follows the older format, in which the name of a counter ends
// with _total. It does not look at the values.
func metricFamilies(families []*family) []*dto.MetricFamily {
	converted := make([]*dto.MetricFamily, 0, len(families))
	for _, family := range families {
		name, metricType := family.Name, dto.MetricType_UNTYPED
		switch family.Type {
		case model.MetricTypeCounter:
			name, metricType = name+"_total", dto.MetricType_COUNTER
		case model.MetricTypeGauge:
			metricType = dto.MetricType_GAUGE
		case model.MetricTypeHistogram:
			metricType = dto.MetricType_HISTOGRAM
		}
		to := &dto.MetricFamily{Name: &name, Help: &family.Help, Type: &metricType}
		for _, series := range family.Series {
			// The series of a histogram are one metric.
			isPart := metricType == dto.MetricType_HISTOGRAM && series.Labels[model.MetricNameLabel] != name+"_count"
			if !isPart {
				to.Metric = append(to.Metric, metric(metricType, series))
			}
		}
		converted = append(converted, to)
	}
	return converted
}

func metric(metricType dto.MetricType, series series) *dto.Metric {
	metric := &dto.Metric{}
	for name, value := range series.Labels {
		if name != model.MetricNameLabel {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &name, Value: &value})
		}
	}
	zero := 0.0
	switch metricType {
	case dto.MetricType_COUNTER:
		metric.Counter = &dto.Counter{Value: &zero}
	case dto.MetricType_GAUGE:
		metric.Gauge = &dto.Gauge{Value: &zero}
	case dto.MetricType_HISTOGRAM:
		metric.Histogram = &dto.Histogram{SampleSum: &zero}
	default:
		metric.Untyped = &dto.Untyped{Value: &zero}
	}
	return metric
}

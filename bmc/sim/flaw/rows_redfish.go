package flaw

var redfishRows = []Row{}

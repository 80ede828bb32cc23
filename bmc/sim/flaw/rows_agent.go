package flaw

var agentRows = []Row{}

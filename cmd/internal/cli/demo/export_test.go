package demo

// WebDemoDrain is the time that the web demo has to end its streams.
const WebDemoDrain = webDemoDrain

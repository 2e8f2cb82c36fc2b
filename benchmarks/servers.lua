-- Sends the bodies of a file in turns, one on each line, and tells what came of it on one line.
local requests, at = {}, 0

function init(args)
  for body in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, nil, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("wrk %d %d %d %d %d\n", summary.requests, summary.duration, failed,
    latency:percentile(50), latency:percentile(99)))
end

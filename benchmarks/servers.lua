-- Sends the requests of a file in turns, a path, a tab and a body on each line, and tells what came
-- of it on one line.
local requests, at = {}, 0

function init(args)
  for line in io.lines(args[1]) do
    local path, body = line:match("^(%S+)\t(.*)$")
    requests[#requests + 1] = wrk.format("POST", path, nil, body)
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

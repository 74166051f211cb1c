local mono = ask[1]
if mono < 0 then
  local time = redis.call('TIME')
  mono = time[1] * 1000000 + time[2]
end
-- Milliseconds to keep something. Where time is stepped the server's own must not be quicker.
local function span(micros) return math.max(math.ceil(micros / 1000), 1) + (ask[1] < 0 and 0 or 3600000) end

local mono = args[1]
if mono < 0 then
  local time = redis.call('TIME')
  mono = time[1] * 1000000 + time[2]
end
-- Converts a time span to a TTL in milliseconds. With a manual clock, an hour is added so that the server's own clock does
-- not expire the key first.
local function span(micros) return math.max(math.ceil(micros / 1000), 1) + (args[1] < 0 and 0 or 3600000) end

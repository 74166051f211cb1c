local mono = ask[1]
if mono < 0 then
  local time = redis.call('TIME')
  mono = time[1] * 1000000 + time[2]
end
local function span(micros) return math.max(math.ceil(micros / 1000), 1) end

-- Keeps an answer unless a stronger one is there that can still be served.
-- ask: 1 grade; 2, 3 stored at, in seconds and nanoseconds; 4, 5 what is older than this or as old is dead; 6, 7 what is
-- newer than this is not believed; 8 milliseconds to keep it; 9 the text.
local ask = cmsgpack.unpack(ARGV[1])
local fine, stronger = pcall(function()
  local head = redis.call('GETRANGE', KEYS[1], 0, 10)
  if #head < 11 then return false end
  local grade, seconds, nanos = struct.unpack('>BI6I4', head)
  local is_dead = seconds < ask[4] or seconds == ask[4] and nanos <= ask[5]
  local is_ahead = seconds > ask[6] or seconds == ask[6] and nanos > ask[7]
  return grade > ask[1] and not is_dead and not is_ahead
end)
-- What is no answer is no reason not to keep one.
if fine and stronger then return { 1 } end
redis.call('SET', KEYS[1], struct.pack('>BI6I4', ask[1], ask[2], ask[3]) .. ask[9], 'PX', ask[8])
return { 0 }

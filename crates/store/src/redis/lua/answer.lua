-- Stores an answer unless a stronger one is cached that can still be served.
-- args: 1 grade; 2, 3 the time of storing, in seconds and nanoseconds; 4, 5 answers stored at or before this time have
-- expired; 6, 7 answers stored after this time are ignored, because their clock is wrong; 8 the TTL in milliseconds; 9 the text.
local args = cmsgpack.unpack(ARGV[1])
local ok, stronger = pcall(function()
  local head = redis.call('GETRANGE', KEYS[1], 0, 10)
  if #head < 11 then return false end
  local grade, seconds, nanos = struct.unpack('>BI6I4', head)
  local is_dead = seconds < args[4] or seconds == args[4] and nanos <= args[5]
  local is_ahead = seconds > args[6] or seconds == args[6] and nanos > args[7]
  return grade > args[1] and not is_dead and not is_ahead
end)
-- An invalid value is overwritten.
if ok and stronger then return { 1 } end
redis.call('SET', KEYS[1], struct.pack('>BI6I4', args[1], args[2], args[3]) .. args[9], 'PX', args[8])
return { 0 }

-- A conversation: its turns are a list, everything else is one record: layout version, expiry, input tokens, output tokens,
-- and its last requests, 16 bytes each. args: 1, 2 the time or -1; 3 the operation; 4 the TTL, 5 the maximum number of turns
-- and requests; to append: 6 the request, 7 input, 8 output, then the turns; to read: 6 the number of turns.
local args = cmsgpack.unpack(ARGV[1])
--TIME
local function decide()
  local raw = redis.call('GET', KEYS[1])
  local stored = raw and cmsgpack.unpack(raw)
  if stored and (stored[1] ~= 1 or #stored ~= 5) then error('unknown layout') end
  if stored and stored[2] <= mono then stored = nil end
  if args[3] == 2 then
    if not stored or args[6] == 0 then return {} end
    local turns = redis.call('LRANGE', KEYS[2], -args[6], -1)
    local bytes, from = 0, #turns + 1
    while from > 1 and bytes + #turns[from - 1] <= 8388608 do
      from = from - 1
      bytes = bytes + #turns[from]
    end
    local answer = {}
    for pos = from, #turns do answer[#answer + 1] = turns[pos] end
    return answer
  end
  if args[3] == 3 then return stored and { stored[3], stored[4] } or { 0, 0 } end
  if not stored then
    redis.call('DEL', KEYS[2])
    stored = { 1, 0, 0, 0, '' }
  end
  for pos = 1, #stored[5], 16 do
    if string.sub(stored[5], pos, pos + 15) == args[6] then return { 0 } end
  end
  stored[2] = mono + args[4]
  stored[3], stored[4] = math.min(stored[3] + args[7], 9007199254740991), math.min(stored[4] + args[8], 9007199254740991)
  stored[5] = string.sub(stored[5] .. args[6], -16 * args[5])
  for pos = 9, #args do redis.call('RPUSH', KEYS[2], args[pos]) end
  redis.call('LTRIM', KEYS[2], -args[5], -1)
  redis.call('PEXPIRE', KEYS[2], span(args[4]))
  redis.call('SET', KEYS[1], cmsgpack.pack(stored), 'PX', span(args[4]))
  return { 0 }
end
local ok, answer = pcall(decide)
if ok then return answer end
-- An invalid conversation is deleted.
redis.call('DEL', KEYS[1], KEYS[2])
return { 9, tostring(answer) }

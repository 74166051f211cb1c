-- A conversation: its turns are a list, all else is one record: the version, until when it lasts, tokens of input and of
-- output, and its last requests, 16 bytes each. ask: 1, 2 the time or -1; 3 what to do; 4 for how long, 5 the most turns
-- and requests; for adding: 6 the request, 7 input, 8 output, then the turns; for reading: 6 how many turns.
local ask = cmsgpack.unpack(ARGV[1])
--TIME
local function decide()
  local raw = redis.call('GET', KEYS[1])
  local there = raw and cmsgpack.unpack(raw)
  if there and (there[1] ~= 1 or #there ~= 5) then error('another layout') end
  if there and there[2] <= mono then there = nil end
  if ask[3] == 2 then
    if not there or ask[6] == 0 then return {} end
    local turns = redis.call('LRANGE', KEYS[2], -ask[6], -1)
    local bytes, from = 0, #turns + 1
    while from > 1 and bytes + #turns[from - 1] <= 8388608 do
      from = from - 1
      bytes = bytes + #turns[from]
    end
    local answer = {}
    for place = from, #turns do answer[#answer + 1] = turns[place] end
    return answer
  end
  if ask[3] == 3 then return there and { there[3], there[4] } or { 0, 0 } end
  if not there then
    redis.call('DEL', KEYS[2])
    there = { 1, 0, 0, 0, '' }
  end
  for place = 1, #there[5], 16 do
    if string.sub(there[5], place, place + 15) == ask[6] then return { 0 } end
  end
  there[2] = mono + ask[4]
  there[3], there[4] = math.min(there[3] + ask[7], 9007199254740991), math.min(there[4] + ask[8], 9007199254740991)
  there[5] = string.sub(there[5] .. ask[6], -16 * ask[5])
  for place = 9, #ask do redis.call('RPUSH', KEYS[2], ask[place]) end
  redis.call('LTRIM', KEYS[2], -ask[5], -1)
  redis.call('PEXPIRE', KEYS[2], span(ask[4]))
  redis.call('SET', KEYS[1], cmsgpack.pack(there), 'PX', span(ask[4]))
  return { 0 }
end
local fine, answer = pcall(decide)
if fine then return answer end
-- A conversation that nobody understands is forgotten.
redis.call('DEL', KEYS[1], KEYS[2])
return { 9, tostring(answer) }

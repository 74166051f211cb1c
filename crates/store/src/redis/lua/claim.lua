-- A claim by itself. ask: 1, 2 the time or -1; 3 what to do; 4 the fingerprint, 5 a random number, 6 for how long.
-- A claim is 22 bytes: p or d (done), the fingerprint, the number, until when it lasts.
local ask = cmsgpack.unpack(ARGV[1])
--TIME
local key = KEYS[1]
local function put(state)
  redis.call('SET', key, state .. ask[4] .. struct.pack('>I6I7', ask[5], mono + ask[6]), 'PX', span(ask[6]))
end
local fine, there = pcall(function()
  local raw = redis.call('GET', key)
  if not raw then return false end
  if #raw ~= 22 then error('another claim') end
  local number, expires = struct.unpack('>I6I7', raw, 10)
  if expires <= mono then return false end
  return { string.sub(raw, 1, 1), string.sub(raw, 2, 9), number }
end)
if not fine then
  -- Nobody knows who is at work: somebody is, for as long as that would last.
  if ask[3] == 1 then ask[5] = 0; put('p') end
  return { 9, tostring(there) }
end
if ask[3] == 1 then
  if there then
    if there[2] ~= ask[4] then return { 3 } end
    return { there[1] == 'd' and 2 or 1 }
  end
  put('p')
  return { 0 }
end
if there and there[1] == 'p' and there[2] == ask[4] and there[3] == ask[5] then
  if ask[3] == 2 then put('d') else redis.call('DEL', key) end
end
return { 0 }

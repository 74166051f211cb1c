-- A claim of an idempotency key. args: 1, 2 the time or -1; 3 the operation; 4 the fingerprint, 5 a random number, 6 the TTL.
-- A claim has 22 bytes: p (in progress) or d (done), the fingerprint, the number, the expiry.
local args = cmsgpack.unpack(ARGV[1])
--TIME
local key = KEYS[1]
local function put(state)
  redis.call('SET', key, state .. args[4] .. struct.pack('>I6I7', args[5], mono + args[6]), 'PX', span(args[6]))
end
local ok, stored = pcall(function()
  local raw = redis.call('GET', key)
  if not raw then return false end
  if #raw ~= 22 then error('invalid claim') end
  local number, expires = struct.unpack('>I6I7', raw, 10)
  if expires <= mono then return false end
  return { string.sub(raw, 1, 1), string.sub(raw, 2, 9), number }
end)
if not ok then
  -- The state is unknown, so the request counts as in progress until the claim would expire.
  if args[3] == 1 then args[5] = 0; put('p') end
  return { 9, tostring(stored) }
end
if args[3] == 1 then
  if stored then
    if stored[2] ~= args[4] then return { 3 } end
    return { stored[1] == 'd' and 2 or 1 }
  end
  put('p')
  return { 0 }
end
if stored and stored[1] == 'p' and stored[2] == args[4] and stored[3] == args[5] then
  if args[3] == 2 then put('d') else redis.call('DEL', key) end
end
return { 0 }
